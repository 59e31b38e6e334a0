//! Timers: once for each mailbox and due time.

use std::time::Duration;

use super::{advance, deliver_in_order, start_with_clock, switch, wait_for_log};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_runs_once_for_each_due_time_and_once_for_missed_ones() {
    let service = start_with_clock("tick=60").await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    // The jobs of the module have been started.
    deliver_in_order(&ada, "one").await;
    wait_for_log(&ada, &["one"]).await;
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
    deliver_in_order(&ada, "two").await;
    wait_for_log(&ada, &["one", "tick", "tick", "tick", "two"]).await;
}
