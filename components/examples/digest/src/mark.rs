//! POST `/api/v1/digest/mark`: records the number of the newest message that the caller has read.

use latchmail_sdk::capability::{Caller, Error, Store};
use latchmail_sdk::{Failure, Reply, Request, codes, stored};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The key of the mark in the store.
const KEY: &str = "mark";

/// The mark: the newest message that the caller has read.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct Mark {
    /// The number of the newest message that has been read.
    upto: u64,
}

/// Returns the mark, or 0 if the account has no mark.
pub(crate) fn read(host: &impl Store) -> Result<u64, Error> {
    let mark: Option<Mark> = stored::read(host, KEY)?;
    Ok(mark.map_or(0, |mark| mark.upto))
}

/// Move the mark
///
/// A mark only moves forward: if two requests are concurrent, the higher mark is stored. The
/// response contains the current mark.
#[utoipa::path(
    post,
    path = "/api/v1/digest/mark",
    operation_id = "markDigest",
    tag = "Digest",
    request_body = Mark,
    responses(
        (status = 200, description = "The mark as it is now", body = Mark),
        (status = 400, description = "`upto is required`, `upto must be a non-negative integer`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn mark_digest(
    host: &(impl Caller + Store),
    request: &Request,
) -> Result<Reply, Failure> {
    let requested: Mark = request.json()?;
    let mark = stored::change(host, KEY, |was: Option<Mark>| {
        let was = was.map_or(0, |was| was.upto);
        Some(Mark {
            upto: requested.upto.max(was),
        })
    });
    Reply::json(&mark.map_err(|error| Failure::of(error, (codes::NOT_FOUND, "Not found"), host))?)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Scope;
    use latchmail_sdk::testing::Service;
    use serde_json::json;

    #[test]
    fn a_mark_only_moves_forward() {
        let service = Service::of(crate::module());
        for (requested, now) in [(7, 7), (3, 7), (9, 9), (0, 9)] {
            let response = service.post("/api/v1/digest/mark", &json!({ "upto": requested }));
            assert_eq!(response.succeeds(200), json!({ "upto": now }));
        }
    }

    #[test]
    fn each_account_has_its_own_mark() {
        let service = Service::of(crate::module());
        service
            .post("/api/v1/digest/mark", &json!({ "upto": 7 }))
            .succeeds(200);
        service.host.sign_in("grace@example.test");
        assert_eq!(service.get("/api/v1/digest").succeeds(200)["upto"], 0);
        service.host.sign_in("ada@example.test");
        assert_eq!(service.get("/api/v1/digest").succeeds(200)["upto"], 7);
    }

    #[test]
    fn an_invalid_mark_is_refused_and_changes_nothing() {
        let service = Service::of(crate::module());
        for (body, text) in [
            (json!({}), "upto is required"),
            (json!({ "upto": -1 }), "upto must be a non-negative integer"),
            (json!([7]), "The body must be an object"),
        ] {
            service.post("/api/v1/digest/mark", &body).fails(400, text);
        }
        assert!(service.host.stored_values().is_empty());
    }

    #[test]
    fn a_token_for_reading_cannot_set_the_mark() {
        let service = Service::of(crate::module());
        service.host.use_token(&[Scope::MailRead]);
        let refused = service.post("/api/v1/digest/mark", &json!({ "upto": 7 }));
        refused.fails(403, "This credential is missing the \"mail:write\" scope");
    }
}
