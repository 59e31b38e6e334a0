//! A team for unit tests.

use latchmail_sdk::testing::Service;
use serde_json::json;

/// Returns a service with a grant of these rights to `bob` on the mailbox of `ada`. `ada` is signed
/// in.
pub(crate) fn with_bob(rights: &[&str]) -> Service {
    let service = Service::of(crate::module());
    for name in ["bob@example.test", "ada@example.test"] {
        service.host.sign_in(name);
    }
    let bob = json!({
        "username": "bob", "password": "Correct-Horse-7", "resource_kind": "mailbox", "rights": rights,
    });
    let path = "/api/v1/teams/ada@example.test/invitations";
    service.post(path, &bob).succeeds(201);
    service
}
