//! The name of the sender, addresses for replies, additional header fields and inline files, as the
//! recipient's IMAP client sees them.

use async_imap::imap_proto::BodyStructure;
use futures_util::TryStreamExt as _;
use latchmail_tests::{Imap, Service, imap};
use serde_json::{Value, json};

use super::attachments::file;
use super::{SEND, assert_well_formed, found, mail, send_mail, wait_for_mail, with};

/// Names of files and people in six scripts.
const NAMES: [&str; 6] = [
    "Résumé d'été, \"v2\"",
    "Отчёт за 2026 год",
    "日本語の資料",
    "تقرير سنوي",
    "रिपोर्ट",
    "דוח שנתי",
];

/// Returns the structure of the only message of a folder: the media types, and for each file the
/// disposition and the Content-ID.
async fn structure(client: &mut Imap, folder: &str, imap_uid: u32) -> String {
    client.select(folder).await.unwrap();
    let fetched = client
        .uid_fetch(imap_uid.to_string(), "(UID BODYSTRUCTURE)")
        .await;
    let fetched: Vec<_> = fetched.unwrap().try_collect().await.unwrap();
    described(fetched[0].bodystructure().unwrap())
}

fn described(structure: &BodyStructure<'_>) -> String {
    let (common, id) = match structure {
        BodyStructure::Multipart { common, bodies, .. } => {
            let bodies: Vec<String> = bodies.iter().map(described).collect();
            let subtype = common.ty.subtype.to_lowercase();
            return format!("{subtype}({})", bodies.join(" "));
        }
        BodyStructure::Basic { common, other, .. }
        | BodyStructure::Text { common, other, .. }
        | BodyStructure::Message { common, other, .. } => (common, other.id.as_deref()),
    };
    let media = format!("{}/{}", common.ty.ty, common.ty.subtype).to_lowercase();
    let disposition = common.disposition.as_ref();
    let disposition = disposition.map(|one| format!(";{}", one.ty.to_lowercase()));
    let id = id.map(|id| format!(";{id}"));
    format!(
        "{media}{}{}",
        disposition.unwrap_or_default(),
        id.unwrap_or_default()
    )
}

#[tokio::test]
async fn a_mail_has_the_fields_and_the_structure_of_the_request() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let picture = with(
        file("logo.png", "image/png", b"png"),
        "contentId",
        "logo@first.test",
    );
    let picture = with(picture, "inline", true);
    let request = with(
        mail("with all fields"),
        "html",
        "<img src=\"cid:logo@first.test\">",
    );
    let request = with(request, "fromName", "Müller, Ada");
    let request = with(
        request,
        "replyTo",
        json!(["Team <team@outside.test>", "ada@first.test"]),
    );
    let fields = [
        ("X-Ticket", "7"),
        ("X-Ticket", "Zwölf  Boxkämpfer jagen"),
        ("List-Id", "Bücher <books.first.test>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        ("Auto-Submitted", "auto-generated"),
        ("Importance", "high"),
    ];
    let fields = fields.map(|(name, value)| json!({ "name": name, "value": value }));
    let request = with(request, "headers", json!(fields));
    let files = json!([file("a.csv", "text/csv", b"a,b"), picture]);
    let request = with(request, "attachments", files);
    let sent = send_mail(&ada, &request).await;
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(
        received["from"],
        json!([{ "name": "Müller, Ada", "address": ada.address }])
    );
    let reply_to = json!([
        { "name": "Team", "address": "team@outside.test" },
        { "name": "", "address": "ada@first.test" },
    ]);
    assert_eq!(received["replyTo"], reply_to);
    let mut client = imap(&bob).await;
    let message = found(&mut client, "INBOX", &sent).await;
    assert_well_formed(&message);
    for (name, value) in [
        ("x-ticket", "7"),
        ("list-id", "=?utf-8?B?QsO8Y2hlcg==?= <books.first.test>"),
        ("list-unsubscribe-post", "List-Unsubscribe=One-Click"),
        ("auto-submitted", "auto-generated"),
        ("importance", "high"),
    ] {
        assert_eq!(message.header(name).as_deref(), Some(value));
    }
    let expected = "mixed(alternative(text/plain related(text/html \
        image/png;inline;<logo@first.test>)) text/csv;attachment)";
    assert_eq!(
        structure(&mut client, "INBOX", message.imap_uid).await,
        expected
    );

    // Names of files and people in all scripts.
    for name in NAMES {
        let request = with(mail("in all scripts"), "fromName", name);
        let attached = json!([file(&format!("{name}.pdf"), "application/pdf", b"x")]);
        let sent = send_mail(&ada, &with(request, "attachments", attached)).await;
        let received = wait_for_mail(&bob, &sent).await;
        assert_eq!(received["from"][0]["name"], name);
        assert_eq!(
            received["attachments"][0]["filename"],
            format!("{name}.pdf")
        );
        assert_well_formed(&found(&mut client, "INBOX", &sent).await);
    }
}

#[tokio::test]
async fn fields_that_are_not_allowed_are_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    service.person("bob").await;
    let field = |name: &str, value: &str| json!([{ "name": name, "value": value }]);
    let cases: [(&str, Value); 10] = [
        ("headers", field("References", "<a@b>")),
        ("headers", field("Bcc", "x@outside.test")),
        ("headers", field("X-Spam-Status", "No")),
        (
            "headers",
            field("X-Authentication-Results", "first.test; dmarc=pass"),
        ),
        ("headers", field("X-A", "a\r\nBcc: x@outside.test")),
        ("headers", field("X-A\r\nBcc", "x@outside.test")),
        ("headers", field("X-A", &"a".repeat(901))),
        (
            "headers",
            json!(vec![json!({ "name": "X-A", "value": "a" }); 51]),
        ),
        ("fromName", json!("a\r\nBcc: x@outside.test")),
        ("replyTo", json!("no address")),
    ];
    for (name, value) in cases {
        let response = ada
            .post(SEND, &with(mail("refused"), name, value.clone()))
            .await;
        assert_eq!(response.status, 400, "{name}: {value}");
    }
    // The fields are part of what an idempotency key identifies.
    let send = async |request: &Value| {
        let request_builder = ada.service.request(&format!("POST {SEND}"));
        let request_builder = request_builder.bearer_auth(&ada.access);
        let request_builder = request_builder.header("idempotency-key", "fields");
        latchmail_tests::Response::of_json(request_builder, request)
            .await
            .status
    };
    let request = with(mail("once"), "headers", field("X-A", "1"));
    assert_eq!(send(&request).await, 200);
    assert_eq!(send(&request).await, 200);
    for (name, value) in [
        ("headers", field("X-A", "2")),
        ("fromName", json!("Ada")),
        ("replyTo", json!("ada@first.test")),
    ] {
        assert_eq!(
            send(&with(request.clone(), name, value)).await,
            409,
            "{name}"
        );
    }
}
