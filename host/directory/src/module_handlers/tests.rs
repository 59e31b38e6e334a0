use super::*;
use crate::modules::NewVersion;
use crate::testing::{Fresh, NOW, both};

fn session(account: &str) -> SessionCaller<'_> {
    SessionCaller {
        account_id: account,
        sid: "s",
        at: NOW,
    }
}

/// Stores the account `ada` and the module `rules`.
async fn prepare(fresh: &Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["s"]).await;
    let version = NewVersion {
        module: "rules",
        digest: "d",
        version: "1",
        component: b"component",
        source: false,
        artifact: None,
    };
    let (set, origin) = ([version], Origin::default());
    let installed = directory.modules.install(&set, 2, NOW, &origin);
    installed.await.unwrap();
}

async fn enable(fresh: &Fresh, module: &str, scopes: &[Scope], cursor: &str) -> bool {
    let handlers = &fresh.directory.module_handlers;
    let origin = Origin::default();
    let enabled = handlers.enable(session("ada"), module, scopes, cursor, &origin);
    enabled.await.unwrap()
}

async fn find(fresh: &Fresh) -> Option<EnabledModule> {
    let handlers = &fresh.directory.module_handlers;
    handlers.find("ada", "rules").await.unwrap()
}

async fn a_module_is_enabled_with_a_session_and_only_if_it_is_installed(fresh: Fresh) {
    prepare(&fresh).await;
    let read = [Scope::MailRead];
    assert!(!enable(&fresh, "other", &read, "c0").await);
    assert!(enable(&fresh, "rules", &read, "c0").await);
    // A second call changes the scopes, and keeps the position.
    let both = [Scope::MailRead, Scope::MailWrite];
    assert!(enable(&fresh, "rules", &both, "c1").await);
    let row = find(&fresh).await.unwrap();
    assert_eq!((row.scopes(), &*row.cursor), (both.to_vec(), "c0"));

    let handlers = &fresh.directory.module_handlers;
    let origin = Origin::default();
    let ended = SessionCaller {
        sid: "ended",
        ..session("ada")
    };
    assert!(!handlers.disable(ended, "rules", &origin).await.unwrap());
    let disabled = handlers.disable(session("ada"), "rules", &origin);
    assert!(disabled.await.unwrap());
    assert_eq!(find(&fresh).await, None);
    let events = "SELECT COUNT(*) FROM security_events WHERE kind LIKE 'module_handlers_%'";
    assert_eq!(fresh.number(events).await, 3);

    // Another module with the same name does not act for the owner.
    assert!(enable(&fresh, "rules", &read, "c0").await);
    let removed = fresh.directory.modules.remove("rules", false, NOW, &origin);
    assert!(removed.await.unwrap());
    assert_eq!(find(&fresh).await, None);
}

async fn a_paused_module_continues_with_or_after_the_failed_event(fresh: Fresh) {
    prepare(&fresh).await;
    enable(&fresh, "rules", &[Scope::MailRead], "c0").await;
    let handlers = &fresh.directory.module_handlers;
    let origin = Origin::operator();
    let resume = async |skip| {
        let resumed = handlers.resume("ada", "rules", skip, NOW, &origin);
        resumed.await.unwrap()
    };
    assert!(!resume(false).await);
    let row = find(&fresh).await.unwrap();
    let progress = Progress {
        cursor: "c1",
        next_at: NOW,
        failures: 0,
    };
    assert!(handlers.advance(&row, progress).await.unwrap());
    // Another host that still has the earlier row changes nothing.
    assert!(!handlers.advance(&row, progress).await.unwrap());
    for (skip, cursor) in [(false, "c1"), (true, "c2")] {
        let row = find(&fresh).await.unwrap();
        let paused = handlers.pause(&row, "it failed", FailedCall::Event("c2"), NOW);
        assert!(paused.await.unwrap());
        assert!(!handlers.advance(&row, progress).await.unwrap());
        assert!(handlers.running().await.unwrap().is_empty());
        let paused = handlers.paused("rules").await.unwrap();
        assert_eq!(
            (&*paused[0].address, &*paused[0].reason),
            ("ada@example.org", "it failed")
        );
        let counts = handlers.counts().await.unwrap();
        assert_eq!((counts[0].enabled, counts[0].paused), (1, 1));
        assert!(resume(skip).await);
        let row = find(&fresh).await.unwrap();
        assert_eq!((&*row.cursor, row.is_running()), (cursor, true));
    }
    let running = handlers.running().await.unwrap();
    assert_eq!(
        (&*running[0].account, &*running[0].module, running.len()),
        ("ada", "rules", 1)
    );
    assert_eq!(handlers.running_of_account("ada").await.unwrap(), ["rules"]);
    assert!(handlers.is_running("ada", "rules").await.unwrap());
    // The row stays while the operator has disabled the module.
    let disabled = fresh.directory.modules.switch("rules", false, NOW, &origin);
    disabled.await.unwrap();
    assert!(handlers.running().await.unwrap().is_empty());
    assert!(!handlers.is_running("ada", "rules").await.unwrap());
    assert!(find(&fresh).await.unwrap().is_running());
    // A host that reads the modules only now and then notices that the operator disabled it.
    let later = NOW.plus(std::time::Duration::from_millis(1));
    let enabled = fresh
        .directory
        .modules
        .switch("rules", true, later, &origin);
    enabled.await.unwrap();
    assert_ne!(handlers.running().await.unwrap(), running);
}

async fn a_due_time_of_a_timer_is_changed_by_one_host(fresh: Fresh) {
    prepare(&fresh).await;
    let handlers = &fresh.directory.module_handlers;
    let timer = async || {
        let timers = handlers.timers("ada", "rules").await.unwrap();
        timers.into_iter().find(|one| one.timer == "daily")
    };
    handlers
        .add_timer("ada", "rules", "daily", NOW)
        .await
        .unwrap();
    assert_eq!(timer().await, None);
    enable(&fresh, "rules", &[], "c0").await;
    let later = NOW.plus(std::time::Duration::from_mins(1));
    for due_at in [NOW, later] {
        handlers
            .add_timer("ada", "rules", "daily", due_at)
            .await
            .unwrap();
    }
    let (row, due) = (find(&fresh).await.unwrap(), timer().await.unwrap());
    assert_eq!(due, TimerRow::due("daily", NOW));
    let changed = handlers.change_timer(&row, &due, NOW, later, 1);
    assert!(changed.await.unwrap());
    let failed = timer().await.unwrap();
    assert_eq!((failed.next_at(), failed.failures), (later, 1));
    let changed = handlers.change_timer(&row, &failed, later, later, 0);
    assert!(changed.await.unwrap());
    let changed = handlers.change_timer(&row, &due, later, later, 0);
    assert!(!changed.await.unwrap());

    let paused = handlers.pause(&row, "it failed", FailedCall::Timer("daily"), NOW);
    assert!(paused.await.unwrap());
    let origin = Origin::operator();
    let resumed = handlers.resume("ada", "rules", true, NOW, &origin);
    assert!(resumed.await.unwrap());
    assert_eq!(timer().await, None);
}

both!(
    a_module_is_enabled_with_a_session_and_only_if_it_is_installed,
    a_paused_module_continues_with_or_after_the_failed_event,
    a_due_time_of_a_timer_is_changed_by_one_host,
);
