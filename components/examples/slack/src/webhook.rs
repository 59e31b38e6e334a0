//! PUT and DELETE `/api/v1/slack/webhook`: sets and removes the incoming webhook of the caller.

use latchmail_sdk::capability::{Caller, Error, HttpClient, Store};
use latchmail_sdk::{Code, Failed, Failure, Reply, Request, Succeeded, codes, stored};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::slack;

/// The error code for a webhook that does not accept the first message.
pub(crate) const REFUSED: Code = Code::new("slack_webhook_refused");

/// The key of the webhook in the store.
const KEY: &str = "webhook";

/// The first message, which shows the owner that the URL is correct.
const FIRST: &str = "New mail will be posted here.";

/// An incoming webhook.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct SlackWebhook {
    /// The URL. Anyone who knows the URL can post messages, so no route returns it.
    pub(crate) url: String,
}

/// Returns the webhook of the caller.
pub(crate) fn read(host: &impl Store) -> Result<Option<SlackWebhook>, Error> {
    stored::read(host, KEY)
}

/// Set the webhook
///
/// Posts a first message, and stores the URL if the webhook accepts the message.
#[utoipa::path(
    put,
    path = "/api/v1/slack/webhook",
    operation_id = "setSlackWebhook",
    tag = "Slack",
    request_body = SlackWebhook,
    responses(
        (status = 200, description = "The webhook is set", body = Succeeded),
        (status = 400, description = "The URL is invalid, or the webhook refused the message", body = Failed),
        (status = 403, description = "The operator does not allow the host", body = Failed)
    )
)]
pub(crate) fn set_slack_webhook(
    host: &(impl Caller + HttpClient + Store),
    request: &Request,
) -> Result<Reply, Failure> {
    let webhook: SlackWebhook = request.json()?;
    match slack::post(host, &webhook.url, FIRST) {
        Ok(response) if slack::is_accepted(&response) => {}
        Ok(response) => {
            let text = format!("The webhook responded with status {}", response.status);
            return Err(Failure::bad_request(REFUSED, text));
        }
        Err(Error::Unavailable | Error::OutcomeUnknown) => {
            let text = "The webhook did not respond";
            return Err(Failure::bad_request(REFUSED, text));
        }
        Err(error) => return Err(failure(error, host)),
    }
    stored::write(host, KEY, &webhook).map_err(|error| failure(error, host))?;
    Reply::success()
}

/// Remove the webhook
#[utoipa::path(
    delete,
    path = "/api/v1/slack/webhook",
    operation_id = "deleteSlackWebhook",
    tag = "Slack",
    responses((status = 200, description = "There is no webhook", body = Succeeded))
)]
pub(crate) fn delete_slack_webhook(
    host: &(impl Caller + Store),
    _: &Request,
) -> Result<Reply, Failure> {
    host.delete_value(KEY)
        .map_err(|error| failure(error, host))?;
    Reply::success()
}

fn failure(error: Error, host: &impl Caller) -> Failure {
    Failure::of(error, (codes::NOT_FOUND, "Not found"), host)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{HttpResponse, Scope};
    use latchmail_sdk::testing::Service;
    use serde_json::json;

    use super::*;

    const PATH: &str = "/api/v1/slack/webhook";
    const URL: &str = "https://hooks.slack.com/services/T0/B0/secret";

    /// Returns a service whose webhook responds in this way.
    fn service(response: Result<u16, Error>) -> Service {
        let service = Service::of(crate::module());
        let response = response.map(|status| HttpResponse {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        });
        service.host.set_response("POST", URL, response);
        service
    }

    #[test]
    fn a_webhook_is_stored_after_it_has_accepted_a_message() {
        let service = service(Ok(200));
        service.put(PATH, &json!({ "url": URL })).succeeds(200);
        let sent = &service.host.requests()[0];
        assert_eq!(sent.body, json!({ "text": FIRST }).to_string().into_bytes());
        assert_eq!(read(&service.host).unwrap().unwrap().url, URL);
        service.delete(PATH).succeeds(200);
        assert!(read(&service.host).unwrap().is_none());
    }

    #[test]
    fn a_webhook_that_does_not_work_is_not_stored() {
        for (response, text) in [
            (Ok(404), "The webhook responded with status 404"),
            (Err(Error::Unavailable), "The webhook did not respond"),
            (Err(Error::OutcomeUnknown), "The webhook did not respond"),
        ] {
            let service = service(response);
            service.put(PATH, &json!({ "url": URL })).fails(400, text);
            assert!(service.host.stored_values().is_empty());
        }
        let service = service(Ok(200));
        let other = json!({ "url": "https://elsewhere.example/hook" });
        let text = "The module may not send requests to https://elsewhere.example/hook";
        service.put(PATH, &other).fails(403, text);
        let refused = service.put(PATH, &json!({ "url": "no URL" }));
        refused.fails(400, "The request is malformed");
    }

    #[test]
    fn only_a_session_sets_the_webhook() {
        let service = service(Ok(200));
        service.host.use_token(&[Scope::MailRead]);
        assert_eq!(service.put(PATH, &json!({ "url": URL })).status, 403);
        assert!(service.host.requests().is_empty());
    }
}
