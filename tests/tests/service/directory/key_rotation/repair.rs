//! Rotations that are interrupted, and rotations without a running service.

use std::process::Stdio;

use latchmail_core::key_file::KeyFile;
use latchmail_core::keyring::Key;
use latchmail_directory::keys::service_keys::Activation;
use latchmail_tests::{Service, program, wait_until};
use tokio::process::Command;

use super::{LONG_AGO, current, in_state, kids, listed};

#[tokio::test]
async fn a_rotation_that_was_killed_is_completed_by_the_next_one() {
    let service = Service::start().await;
    let file = service.state.join("latchmail.key");
    let first = current(&service).await;

    // Killed while it waits for another host, after the key became pending.
    let other = service.another_host().await;
    let mut command = Command::new(program());
    command
        .env_clear()
        .args(["key", "rotate", "--config"])
        .arg(service.operator_config())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    let mut rotation = command.spawn().unwrap();
    wait_until("a pending key", async || {
        !in_state(&service, "pending").await.is_empty()
    })
    .await;
    rotation.kill().await.unwrap();
    let second = in_state(&service, "pending").await.remove(0);
    assert_eq!(kids(&file), [first.clone(), second.clone()]);
    other.stop().await;
    service.operator("key rotate", "").await.succeeds();
    assert_eq!(kids(&file), [second.clone(), first.clone()]);

    // Killed after the key was added to the file.
    let third = KeyFile::lock(&file).unwrap().append_new().unwrap();
    let third = Key::derive(&third).unwrap().kid;
    assert_eq!(in_state(&service, "new").await, [&*third]);
    service.operator("key rotate", "").await.succeeds();
    assert_eq!(kids(&file), [third.clone(), second.clone(), first.clone()]);
    assert_eq!(current(&service).await, third);

    // Killed after the key became the current key.
    let fourth = KeyFile::lock(&file).unwrap().append_new().unwrap();
    let fourth = Key::derive(&fourth).unwrap().kid;
    let directory = &service.app().directory;
    let pending = directory
        .keys
        .add_pending_service_key(&fourth)
        .await
        .unwrap();
    assert_eq!(pending, Some(fourth.clone()));
    wait_until("the host has the key", async || {
        let activated = directory.keys.activate_service_key(&fourth).await.unwrap();
        activated == Activation::Activated
    })
    .await;
    let repaired = service.operator("key rotate", "").await.succeeds();
    assert!(repaired.contains("was interrupted"), "{repaired}");
    assert_eq!(
        kids(&file),
        [fourth.clone(), third.clone(), second.clone(), first.clone()]
    );
    assert_eq!(current(&service).await, fourth);
    assert_eq!(service.app().auth.keys().current().kid, fourth);
}

#[tokio::test]
async fn a_key_rotates_without_a_running_service() {
    let mut service = Service::start().await;
    let file = service.state.join("latchmail.key");
    let first = kids(&file).remove(0);
    service.person("ada").await;
    service.stop().await;
    service.operator("key rotate", "").await.succeeds();
    let second = kids(&file).remove(0);
    assert_ne!(first, second);
    service.restart().await;
    assert_eq!(service.app().auth.keys().current().kid, second);

    // A session that is sealed with the earlier key prevents the removal. The service seals it
    // again after its start.
    super::wait_until_resealed(&service, &file, &first).await;
    let id = latchmail_core::keyring::Keyring::load(&file).unwrap();
    let id = id.by_kid(&first).unwrap().id;
    let directory = &service.app().directory;
    let sessions = latchmail_directory::keys::sealed::SealedColumn::Session;
    let sealed = directory
        .keys
        .sealed(sessions, b"", "", 1)
        .await
        .unwrap()
        .remove(0);
    let earlier = [id.as_slice(), b"sealed"].concat();
    let changed = directory
        .keys
        .reseal(sessions, &sealed.0, &sealed.1, &earlier);
    changed.await.unwrap();
    service.execute(LONG_AGO).await;
    let remove = format!("key remove {first}");
    let refused = service.operator(&remove, "").await;
    refused.fails_mentioning("web sessions: 1 (the last one expires at ");
    let changed = directory
        .keys
        .reseal(sessions, &sealed.0, &earlier, &sealed.1);
    changed.await.unwrap();
    service.operator(&remove, "").await.succeeds();
    assert_eq!(kids(&file), [&*second]);
    assert_eq!(listed(&service).await.len(), 1);
    service
        .operator(&remove, "")
        .await
        .fails_mentioning("is not in ");
    // The service has read the changed file, and the last key cannot be removed.
    wait_until("the host has one key", async || {
        service.app().auth.keys().all().len() == 1
    })
    .await;
    let last = service.operator(&format!("key remove {second}"), "").await;
    last.fails_mentioning("is the current key");
}

#[tokio::test]
async fn an_invalid_key_file_changes_nothing_while_the_service_runs() {
    let log = latchmail_tests::Log::capture_at("info");
    let service = Service::start().await;
    let file = service.state.join("latchmail.key");
    let ada = service.person("ada").await;
    let good = std::fs::read_to_string(&file).unwrap();
    for (name, text, mention) in [
        ("bob", "not a key", "cannot read the changed key file"),
        (
            "cyd",
            "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
            "does not contain the current key",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        wait_until(mention, async || !log.lines_with(mention).is_empty()).await;
        ada.send("GET /api/v1/profile").await.succeeds(200);
        service.person(name).await;
    }
    std::fs::write(&file, good).unwrap();
    service.operator("key rotate", "").await.succeeds();
    ada.send("GET /api/v1/profile").await.succeeds(200);
}
