//! Timers: once for each mailbox and due time.

use std::time::Duration;

use latchmail_tests::{Service, wait_until};

use super::{advance, deliver_in_order, log, start_with_clock, switch, wait_for_log};

const MINUTE: Duration = Duration::from_mins(1);

/// Waits until the service has stored the next due time of the timer of the only enabled mailbox.
/// The service stores it some time after the call for the last due time.
async fn wait_for_timer(service: &Service) {
    let rows = &service.app().directory.module_handlers;
    wait_until("the next due time is stored", async || {
        let running = rows.running().await.unwrap();
        let timers = rows.timers(&running[0].account, &running[0].module).await;
        let timers = timers.unwrap();
        !timers.is_empty() && timers.iter().all(|one| one.next_at() > service.clock.now())
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
    wait_for_timer(&service).await;
    advance(&service, MINUTE * 4);
    wait_for_log(&ada, &["one", "tick", "tick"]).await;
    wait_for_timer(&service).await;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_continues_after_its_account_was_disabled() {
    let service = start_with_clock("tick=60").await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    wait_for_timer(&service).await;
    let command = |verb| format!("account {verb} {}", ada.address);
    service.operator(&command("disable"), "").await.succeeds();
    advance(&service, MINUTE);
    service.operator(&command("enable"), "").await.succeeds();
    advance(&service, MINUTE * 2);
    let ada = ada.sign_in_again().await;
    wait_until("the timer runs again", async || !log(&ada).await.is_empty()).await;
}
