//! GET `/api/v1/mail/sent/{messageId}`: returns the states of the deliveries of a sent message.

use latchmail_sdk::capability::{self, Caller, Deliveries, DeliveryRecipient};
use latchmail_sdk::{Failure, Reply, Request, codes, time};
use serde::Serialize;
use utoipa::ToSchema;

/// The state of the delivery to one recipient.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecipientState {
    /// The address to which the message was sent.
    #[schema(example = "bob@example.net")]
    address: String,
    /// `queued`: the mail server has accepted the message, and no report has arrived. `sent`:
    /// another mail server has accepted the message and reports nothing further. `delivered`: the
    /// message is in the mailbox of the recipient. `delayed`: a mail server tries again later.
    /// `bounced`: the message was not delivered. `unknown`: the mail server reports no deliveries,
    /// or it is unknown whether the mail server has accepted the message.
    #[schema(example = "bounced")]
    status: String,
    /// The reason of a delay, of a failure or of an unknown state. The text can come from another
    /// mail server. `null` in other states.
    #[schema(required, example = "550 5.1.1 no such user")]
    detail: Option<String>,
    /// The time at which the state was reported.
    #[schema(format = DateTime, example = "2026-05-04T09:00:12.000Z")]
    at: String,
}

impl From<DeliveryRecipient> for RecipientState {
    fn from(recipient: DeliveryRecipient) -> Self {
        Self {
            address: recipient.address,
            status: recipient.status,
            detail: recipient.detail,
            at: time::iso8601(recipient.at),
        }
    }
}

/// The deliveries of a sent message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentMessage {
    /// The Message-ID with angle brackets.
    #[schema(example = "<19a4.6f0c@example.org>")]
    message_id: String,
    /// All recipients, including those in Bcc.
    recipients: Vec<RecipientState>,
}

impl From<capability::Delivery> for SentMessage {
    fn from(delivery: capability::Delivery) -> Self {
        Self {
            message_id: delivery.message_id,
            recipients: delivery.recipients.into_iter().map(Into::into).collect(),
        }
    }
}

/// Get the deliveries of a sent message
///
/// Returns the state of the delivery to each recipient of a message that the API sent in the last
/// 30 days. Messages that mail clients sent are not found.
#[utoipa::path(
    get,
    path = "/api/v1/mail/sent/{messageId}",
    operation_id = "getDeliveries",
    tag = "Mail",
    params((
        "messageId" = String,
        Path,
        description = "The `messageId` from the response to sending, with or without angle brackets"
    )),
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "The deliveries", body = SentMessage))
)]
pub(crate) fn get_deliveries(
    host: &(impl Deliveries + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let id = request.path("messageId");
    let bare = id.trim_start_matches('<').trim_end_matches('>');
    let delivery = host.get_delivery(&format!("<{bare}>"));
    let not_found = (codes::MESSAGE_NOT_FOUND, "Message not found");
    let delivery = delivery.map_err(|error| Failure::of(error, not_found, host))?;
    Reply::json(&SentMessage::from(delivery))
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Address, Draft, Error, Outbox, SendOptions};
    use latchmail_sdk::testing::{FakeHost, json, request, set_delivery};
    use serde_json::json;

    use super::*;

    fn address(address: &str) -> Address {
        Address {
            name: String::new(),
            address: address.into(),
        }
    }

    fn sent(host: &FakeHost) -> String {
        let draft = Draft {
            from: Some(address("ada@example.test")),
            to: vec![address("bob@example.net"), address("eve@example.net")],
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: "Hello".into(),
            text: Some("Hello".into()),
            html: None,
            in_reply_to: None,
            references: Vec::new(),
            headers: Vec::new(),
            files: Vec::new(),
            original: None,
        };
        host.send(
            draft,
            &SendOptions {
                key: None,
                send_at: None,
                undo_seconds: None,
            },
        )
        .unwrap()
        .message_id
    }

    #[test]
    fn each_recipient_has_a_state() {
        let host = FakeHost::new();
        let id = sent(&host);
        let reason = Some("550 5.1.1 no such user");
        set_delivery(&host, &id, "eve@example.net", "bounced", reason);
        let bare = id.trim_matches(['<', '>']);
        for given in [&*id, bare] {
            let found = json(get_deliveries(
                &host,
                &request(&[("messageId", given)], &[], ""),
            ));
            assert_eq!(found["messageId"], id);
            let [bob, eve] = &found["recipients"].as_array().unwrap()[..] else {
                panic!("{found}");
            };
            assert_eq!(
                (&bob["address"], &bob["status"]),
                (&json!("bob@example.net"), &json!("queued"))
            );
            assert_eq!(bob["detail"], json!(null));
            assert_eq!(
                (&eve["status"], &eve["detail"]),
                (&json!("bounced"), &json!(reason))
            );
            assert!(eve["at"].as_str().unwrap().ends_with('Z'));
        }
    }

    #[test]
    fn an_unknown_message_is_not_found() {
        let host = FakeHost::new();
        for id in ["", "<", "x", "<none@example.test>"] {
            let failure =
                get_deliveries(&host, &request(&[("messageId", id)], &[], "")).unwrap_err();
            assert_eq!((failure.status, &*failure.text), (404, "Message not found"));
        }
        let host = FakeHost::failing(Error::Unavailable);
        let failure = get_deliveries(&host, &request(&[("messageId", "x")], &[], "")).unwrap_err();
        assert_eq!(failure.status, 503);
    }
}
