//! Failures of handlers: pauses, and how the operator resumes a module.

use std::time::Duration;

use latchmail_tests::wait_until;

use super::{
    advance, command, deliver_in_order, log, start, start_with_clock, switch, wait_for_log,
    wait_for_pause,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_event_pauses_the_module_for_one_mailbox_until_it_is_resumed() {
    let service = start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for person in [&ada, &bob] {
        switch(person, true).await;
    }
    deliver_in_order(&ada, "fail there is no rule").await;
    let paused = wait_for_pause(&ada).await;
    assert_eq!(paused["pausedReason"], "there is no rule");
    deliver_in_order(&ada, "next").await;
    deliver_in_order(&bob, "other").await;
    wait_for_log(&bob, &["other"]).await;
    assert_eq!(log(&ada).await, ["fail there is no rule"]);

    let shown = service.operator("module show actor", "").await.succeeds();
    let line = format!("{} paused since", ada.address);
    assert!(
        shown.contains(&line) && shown.contains("there is no rule"),
        "{shown}"
    );
    let listed = service.operator("module list", "").await.succeeds();
    assert!(listed.contains("2 (1 paused)"), "{listed}");

    // Without `--skip`, the same event fails again.
    let resumed = command(&ada, "resume", "").await;
    assert_eq!(resumed, format!("resumed actor for {}\n", ada.address));
    wait_for_log(&ada, &["fail there is no rule", "fail there is no rule"]).await;
    wait_for_pause(&ada).await;
    command(&ada, "resume", " --skip").await;
    wait_for_log(
        &ada,
        &["fail there is no rule", "fail there is no rule", "next"],
    )
    .await;
    let line = format!("module resume actor --account {}", ada.address);
    let again = service.operator(&line, "").await;
    again.fails_mentioning("not paused");
    let audit = service.operator("audit", "").await.succeeds();
    for kind in ["module_handlers_paused", "module_handlers_resumed"] {
        assert!(audit.contains(kind), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_is_repeated_with_growing_delays_and_then_pauses_the_module() {
    let service = start_with_clock("none").await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "trap").await;
    for (count, delay) in [(1, 1), (2, 5), (3, 30), (4, 120)] {
        wait_until("the module is called again", async || {
            log(&ada).await.len() == count
        })
        .await;
        // The outcome of the call is stored some time after the line.
        wait_until("the next call waits", async || {
            let rows = &service.app().directory.module_handlers;
            let rows = rows.running().await.unwrap();
            let (account, module) = (&rows[0].account, &rows[0].module);
            let handlers = &service.app().directory.module_handlers;
            let row = handlers.find(account, module).await.unwrap().unwrap();
            row.failures == i64::try_from(count).unwrap()
        })
        .await;
        advance(&service, Duration::from_secs(delay));
    }
    let paused = wait_for_pause(&ada).await;
    let reason = paused["pausedReason"].as_str().unwrap();
    assert!(reason.contains("trapped"), "{reason}");
    assert_eq!(log(&ada).await, ["trap"; 5]);
}
