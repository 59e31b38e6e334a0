//! Rotation of the service's key while the service runs (docs/key-rotation.md).

mod hosts;
mod page;
mod repair;
mod starts;

use std::path::Path;

use latchmail_core::clock::Clock;
use latchmail_core::keyring::Keyring;
use latchmail_directory::keys::sealed::SealedColumn;
use latchmail_tests::{Service, wait_until};
use serde_json::Value;

/// Makes the last rotation so old that no access token of the earlier key is valid.
const LONG_AGO: &str = "UPDATE service_keys SET changed_at = changed_at - 3600000";

/// Returns the keys as `latchmail key list` shows them.
async fn listed(service: &Service) -> Vec<Value> {
    let listed = service.operator("key list --json", "").await.succeeds();
    let lines = listed.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Returns the ids of the keys in this state.
async fn in_state(service: &Service, state: &str) -> Vec<String> {
    let listed = listed(service).await.into_iter();
    let found = listed.filter(|key| key["state"] == state);
    found
        .map(|key| key["kid"].as_str().unwrap().to_owned())
        .collect()
}

async fn current(service: &Service) -> String {
    in_state(service, "current").await.remove(0)
}

/// Returns the ids of the keys in a key file, in the order of its lines.
fn kids(file: &Path) -> Vec<String> {
    let keys = Keyring::load(file).unwrap().all();
    keys.iter().map(|key| key.kid.clone()).collect()
}

/// Waits until no stored secret is sealed with a key. `kid` is the id of a key in `file`.
async fn wait_until_resealed(service: &Service, file: &Path, kid: &str) {
    let key = Keyring::load(file).unwrap().by_kid(kid).unwrap();
    let directory = service.app().directory.clone();
    wait_until("all secrets are sealed with the current key", async || {
        let mut count = 0;
        for column in SealedColumn::ALL {
            let now = Clock::system().now();
            count += directory
                .keys
                .count_sealed(column, &key.id, now)
                .await
                .unwrap();
        }
        count == 0
    })
    .await;
}
