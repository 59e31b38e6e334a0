//! Timers: once for each mailbox and due time.

use std::time::Duration;

use latchmail_tests::{Service, wait_until};

use super::{advance, deliver_in_order, start_with_clock, switch, wait_for_log};

const MINUTE: Duration = Duration::from_mins(1);

/// Waits until the service has stored the due time of the timer of the only enabled mailbox.
async fn wait_for_timer(service: &Service) {
    let rows = &service.app().directory.module_handlers;
    wait_until("the timer is stored", async || {
        let running = rows.running().await.unwrap();
        let (account, module) = &running[0];
        let timer = rows.timer(account, module, "tick").await;
        timer.unwrap().is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_runs_once_for_each_due_time_and_once_for_missed_ones() {
    let service = start_with_clock("tick=60").await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "one").await;
    wait_for_log(&ada, &["one"]).await;
    wait_for_timer(&service).await;
    advance(&service, MINUTE);
    wait_for_log(&ada, &["one", "tick"]).await;
    advance(&service, MINUTE * 4);
    wait_for_log(&ada, &["one", "tick", "tick"]).await;

    service
        .operator("module disable actor", "")
        .await
        .succeeds();
    advance(&service, MINUTE * 4);
    service.operator("module enable actor", "").await.succeeds();
    wait_for_log(&ada, &["one", "tick", "tick", "tick"]).await;

    switch(&ada, false).await;
    advance(&service, MINUTE * 2);
    switch(&ada, true).await;
    wait_for_timer(&service).await;
    deliver_in_order(&ada, "two").await;
    wait_for_log(&ada, &["one", "tick", "tick", "tick", "two"]).await;
}
