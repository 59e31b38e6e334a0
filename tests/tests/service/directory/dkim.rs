//! DKIM signatures of outgoing mail (RFC 6376), verified by another implementation.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use latchmail_core::clock::Clock;
use latchmail_dkim::{KeyPair, Signer};
use latchmail_tests::dkim::{PKCS8, Records, add_domain, dns_record, key_file, verify, verify_all};
use latchmail_tests::{
    Imap, Person, Service, Setup, StoredMessage, TEST_TIMEOUT, add_alias, imap, random_bytes,
    start_error, stored_messages,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const SEND: &str = "/api/v1/mail/send";
/// The verification result of a message without signatures.
const NONE: [bool; 0] = [];
const POLL: Duration = Duration::from_millis(20);

/// Returns a message of Ada's from her own domain.
fn mail(subject: &str, text: &str) -> Value {
    json!({ "from": "me@ada.example", "to": "ada@first.test", "subject": subject, "text": text })
}

async fn send(person: &Person<'_>, mail: &Value) -> Value {
    person.post(SEND, mail).await.succeeds(200)
}

/// Waits for the message in a folder.
async fn wait_for_message(client: &mut Imap, folder: &str, sent: &Value) -> StoredMessage {
    let id = sent["messageId"].as_str().unwrap();
    let comes = async {
        loop {
            let messages = stored_messages(client, folder).await;
            let mut found = messages
                .into_iter()
                .filter(|message| message.header("message-id").as_deref() == Some(id));
            if let Some(message) = found.next() {
                return message;
            }
            sleep(POLL).await;
        }
    };
    let received = timeout(TEST_TIMEOUT, comes).await;
    received.unwrap_or_else(|_| panic!("{id} never came"))
}

/// Returns the message with the first `what` replaced by another text.
fn replace_text(message: &[u8], what: &str, other: &str) -> Vec<u8> {
    let text = String::from_utf8(message.to_vec()).unwrap();
    assert!(text.contains(what), "{what:?} in {text}");
    text.replacen(what, other, 1).into_bytes()
}

#[tokio::test]
async fn outgoing_mail_of_a_verified_domain_arrives_with_a_valid_signature() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "me@ada.example", true).await;
    let records = add_domain(&ada, "ada.example").await;
    let mut client = imap(&ada).await;
    for text in [
        "One line",
        ".\n..\n.dots\n.\n",
        "an end of empty lines\n\n\n\n",
        "\n\n\n",
        "",
        "blanks at the end  \t \n  and\tbefore,   and  between\n \n",
        "Grüße, 日本語, 🎉\nFrom here\n>From there\n=3D\n",
        &format!("{}\n{}", "x".repeat(5000), "ü".repeat(3000)),
    ] {
        let sent = send(&ada, &mail("Signed", text)).await;
        let delivered = wait_for_message(&mut client, "INBOX", &sent).await;
        let copy = wait_for_message(&mut client, "Sent", &sent).await;
        assert!(
            delivered.bytes.ends_with(&copy.bytes),
            "the same bytes went out and into Sent"
        );
        let good = verify_all([&delivered.bytes[..], &copy.bytes], &records);
        assert_eq!(good, [[true], [true]], "{text:?}");
    }
}

#[tokio::test]
async fn a_change_in_transit_invalidates_the_signature() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "me@ada.example", true).await;
    let records = add_domain(&ada, "ada.example").await;
    let sent = send(&ada, &mail("Ten crowns", "Pay ten crowns.")).await;
    let copy = wait_for_message(&mut imap(&ada).await, "Sent", &sent)
        .await
        .bytes;
    let before = |field: &str| [field.as_bytes(), b"\r\n", &copy].concat();
    let after = |body: &[u8]| [&copy, body].concat();
    let changed = [
        replace_text(&copy, "Pay ten", "Pay six"),
        replace_text(&copy, "Subject: Ten", "Subject: Six"),
        replace_text(&copy, "To: <ada@", "To: <eve@"),
        replace_text(&copy, "From: <me@", "From: <you@"),
        replace_text(&copy, "Date: ", "X-Date: "),
        replace_text(&copy, "text/plain", "text/html"),
        before("From: eve@ada.example"),
        before("Subject: Another"),
        before("To: eve@first.test"),
        before("Cc: eve@first.test"),
        before("Reply-To: eve@outside.test"),
        before("Content-Transfer-Encoding: base64"),
        after(b"And more.\r\n"),
    ];
    let good = verify_all(changed.iter().map(Vec::as_slice), &records);
    for (changed, good) in changed.iter().zip(good) {
        assert_eq!(good, [false], "{}", String::from_utf8_lossy(changed));
    }
    let borne = [
        before("Received: from elsewhere"),
        before("List-Id: <list.example>"),
        replace_text(&copy, "Subject: Ten crowns", "SUBJECT:   Ten\r\n  crowns "),
        after(b"\r\n\r\n"),
    ];
    let good = verify_all(borne.iter().map(Vec::as_slice), &records);
    assert_eq!(good, vec![vec![true]; borne.len()]);
    let other = KeyPair::generate().await.unwrap();
    let (name, _) = records.first_key_value().unwrap();
    let (_, text) = dns_record("ada.example", "", other.public_key());
    let others = Records::from([(name.clone(), text)]);
    assert_eq!(verify(&copy, &others), [false], "another's key");
}

#[tokio::test]
async fn messages_of_every_form_arrive_with_a_valid_signature() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "me@ada.example", true).await;
    let records = add_domain(&ada, "ada.example").await;
    let mut client = imap(&ada).await;
    let words: String = "word ".repeat(199) + "end";
    let nested = "From: a@b.example\r\nSubject: inner\r\n\r\nGr\u{fc}\u{df}e \r\n.\r\n\r\n\r\n";
    let nested = base64(nested.as_bytes());
    let subjects = [
        words.as_str(),
        &"x".repeat(998),
        &"ü".repeat(998),
        "a  b\tc   ",
        " leading",
        "=?utf-8?Q?not_a_word?= ; b=abc; h=Subject",
    ];
    let mut mails: Vec<Value> = subjects.iter().map(|s| mail(s, "Text.\n")).collect();
    let further = [
        json!({ "html": "<p>Gr\u{fc}\u{df}e</p>\n\n", "text": "." }),
        json!({ "attachments": [{ "filename": "übersicht.bin", "content": base64(&random_bytes(100_000)) }] }),
        json!({ "attachments": [{ "filename": "m.eml", "contentType": "message/rfc822", "content": nested }] }),
        json!({ "cc": "\"Böhm, Bo\" <copy@outside.test>, \"a  b\" <c@outside.test>", "bcc": "secret@outside.test" }),
        json!({ "inReplyTo": "<one@outside.test>", "references": "<zero@outside.test> <one@outside.test>" }),
    ];
    for fields in &further {
        let mut mail = mail("Form", "Text.\n.\n\n");
        for (name, value) in fields.as_object().unwrap() {
            mail[name] = value.clone();
        }
        mails.push(mail);
    }
    let mut delivered = Vec::new();
    for mail in &mails {
        let sent = send(&ada, mail).await;
        delivered.push(wait_for_message(&mut client, "INBOX", &sent).await.bytes);
    }
    let good = verify_all(delivered.iter().map(Vec::as_slice), &records);
    for (message, good) in delivered.iter().zip(good) {
        let text = String::from_utf8_lossy(message);
        assert_eq!(good, [true], "{text}");
        assert!(!text.contains("secret@outside.test"));
    }
}

#[tokio::test]
async fn a_domain_signs_from_its_verification_until_its_release() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    add_alias(&ada, "me@ada.example", true).await;
    // Makes it a platform domain, so that Ada may send from her alias on it.
    service
        .execute("INSERT INTO platform_domains (domain) VALUES ('ada.example')")
        .await;
    let signatures = async |client: &mut Imap, records: &Records| {
        let sent = send(&ada, &mail("s", "t")).await;
        verify(
            &wait_for_message(client, "Sent", &sent).await.bytes,
            records,
        )
    };
    assert_eq!(signatures(&mut client, &Records::new()).await, NONE);
    let first = add_domain(&ada, "ada.example").await;
    assert_eq!(signatures(&mut client, &first).await, [true]);
    service.execute("DELETE FROM domains").await;
    assert_eq!(signatures(&mut client, &first).await, NONE);
    let second = add_domain(&ada, "ada.example").await;
    assert_eq!(signatures(&mut client, &first).await, [false]);
    assert_eq!(signatures(&mut client, &second).await, [true]);
}

#[tokio::test]
async fn nothing_is_sent_if_the_key_of_the_domain_cannot_be_decrypted() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "me@ada.example", true).await;
    let records = add_domain(&ada, "ada.example").await;
    service
        .execute("UPDATE domains SET dkim_selector = 'spoilt', dkim_private_key = (SELECT sealed_password FROM sessions LIMIT 1)")
        .await;
    let refused = ada.post(SEND, &mail("s", "t")).await;
    assert_eq!(refused.status, 500, "{}", refused.json);
    assert!(refused.json["error"].is_string());
    assert_eq!(ada.total("Sent").await, 0);
    let count = std::fs::read_dir(&service.mail().sink).unwrap().count();
    assert_eq!(count, 0);
    // The mail of other domains is still sent.
    let own =
        json!({ "from": "ada@first.test", "to": "ada@first.test", "subject": "s", "text": "t" });
    let sent = send(&ada, &own).await;
    let copy = wait_for_message(&mut imap(&ada).await, "Sent", &sent).await;
    assert_eq!(verify(&copy.bytes, &records), NONE);
}

#[tokio::test]
async fn domains_keep_their_keys_when_the_services_own_key_is_replaced() {
    let mut service = Service::with_mail().await;
    let file = service.state.join("latchmail.key");
    let records = {
        let ada = service.person("ada").await;
        add_alias(&ada, "me@ada.example", true).await;
        add_domain(&ada, "ada.example").await
    };
    let old = std::fs::read_to_string(&file).unwrap();
    let new = base64(&random_bytes(32));
    for keys in [format!("{new}\n{old}"), new] {
        service.stop().await;
        std::fs::write(&file, keys).unwrap();
        service.restart().await;
        let ada = Person::sign_in(&service, "ada@first.test", latchmail_tests::PASSWORD).await;
        let sent = send(&ada, &mail("s", "t")).await;
        let copy = wait_for_message(&mut imap(&ada).await, "Sent", &sent).await;
        assert_eq!(verify(&copy.bytes, &records), [true]);
    }
}

#[tokio::test]
async fn a_platform_domain_signs_with_its_configured_key() {
    let folder = tempfile::tempdir().unwrap();
    for (name, form) in [
        ("pkcs8", PKCS8),
        ("pkcs1", "genrsa -traditional -out FILE 2048"),
    ] {
        let file = folder.path().join(name);
        let public = key_file(&file, form);
        let file = file.display();
        let service = Setup::default().with_mail()
            .with(&format!(
                "dkim.keys.main = {{ domain = 'First.TEST', selector = '2026a', key_file = '{file}' }}"
            ))
            .start()
            .await;
        let ada = service.person("ada").await;
        let records = Records::from([dns_record("first.test", "2026a", &public)]);
        let mut client = imap(&ada).await;
        for (from, good) in [("ada@first.test", &[true][..]), ("ada@second.test", &[])] {
            if good.is_empty() {
                add_alias(&ada, from, true).await;
            }
            let mail = json!({ "from": from, "to": "ada@first.test", "subject": "s", "text": "t" });
            let sent = send(&ada, &mail).await;
            for place in ["Sent", "INBOX"] {
                let message = wait_for_message(&mut client, place, &sent).await;
                assert_eq!(verify(&message.bytes, &records), good, "{name} {from}");
            }
        }
    }
}

#[tokio::test]
async fn a_configured_key_signs_only_for_platform_domains() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let public = key_file(&file, PKCS8);
    let service = Setup::default()
        .with_mail()
        .with(&format!(
            "dkim.keys.main = {{ domain = 'ada.example', selector = '2026a', key_file = '{}' }}",
            file.display()
        ))
        .start()
        .await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let own = add_domain(&ada, "ada.example").await;
    add_alias(&ada, "me@ada.example", true).await;
    let configured = Records::from([dns_record("ada.example", "2026a", &public)]);
    for (records, to_others) in [(&own, &configured), (&configured, &own)] {
        let sent = send(&ada, &mail("s", "t")).await;
        let copy = wait_for_message(&mut client, "Sent", &sent).await;
        assert_eq!(verify(&copy.bytes, records), [true]);
        assert_eq!(verify(&copy.bytes, to_others), [false]);
        service.execute("DELETE FROM domains").await;
        service
            .execute("INSERT INTO platform_domains (domain) VALUES ('ada.example') ON CONFLICT (domain) DO NOTHING")
            .await;
    }
}

#[tokio::test]
async fn an_unusable_or_readable_key_file_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, form: &str| {
        let file = folder.path().join(name);
        key_file(&file, form);
        file
    };
    let (good, open) = (made("good", PKCS8), made("open", PKCS8));
    let short = made("short", "genrsa -out FILE 1024");
    let curve = made("curve", "genpkey -algorithm ED25519 -out FILE");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let text = folder.path().join("text");
    std::fs::copy(&good, &text).unwrap();
    std::fs::write(&text, "secret").unwrap();
    let away = folder.path().join("away");
    let key = |domain: &str, selector: &str, file: &Path| {
        let file = file.display();
        format!("{{ domain = '{domain}', selector = '{selector}', key_file = '{file}' }}")
    };
    for (key, why) in [
        (key("a.example", "s", &short), "2048"),
        (key("a.example", "s", &curve), "RSA"),
        (key("a.example", "s", &open), "chmod 600"),
        (key("a.example", "s", &text), "PEM"),
        (key("a.example", "s", &away), "cannot read"),
        (key("a b", "s", &good), "domain"),
        (key("", "s", &good), "domain"),
        (key("a.example", "s;", &good), "selector"),
        (key("a.example", "", &good), "selector"),
    ] {
        let sentence = start_error(&format!("dkim.keys.main = {key}")).await;
        assert!(sentence.contains(why), "{key}: {sentence}");
        assert!(!sentence.contains("secret"), "{sentence}");
    }
    let twice = format!(
        "dkim.keys.one = {}\ndkim.keys.two = {}",
        key("a.example", "s", &good),
        key("A.example", "t", &good)
    );
    assert!(start_error(&twice).await.contains("another key"));
}

#[tokio::test]
async fn the_signature_of_any_generated_message_is_valid() {
    const PIECES: [&str; 12] = [
        " ",
        "\t",
        "\r\n",
        "\r\n\r\n",
        ".",
        "a",
        "Bc",
        "é",
        "  \t ",
        " \r\n",
        "=",
        "\r\n.\r\n",
    ];
    let pair = KeyPair::generate().await.unwrap();
    let signer = Signer::from_pkcs8("ada.example", "s", pair.private_key()).unwrap();
    let mut random = random_bytes(1 << 16).into_iter();
    let mut made = |most: usize| -> String {
        let count = usize::from(random.next().unwrap()) % most;
        let piece = |_| PIECES[usize::from(random.next().unwrap()) % PIECES.len()];
        (0..count).map(piece).collect()
    };
    let mut messages = Vec::new();
    for _ in 0..500 {
        let value = made(12).replace("\r\n", "\r\n ");
        let body = made(40);
        let message = format!(
            "From: a@ada.example\r\nSubject:{value}x\r\nTo: b@b.example\r\nX-Other:{value}\r\nCC: {value}y\r\n\r\n{body}\r\n"
        );
        let field = signer.sign(message.as_bytes(), Clock::system().now());
        messages.push(field.unwrap() + &message);
    }
    let (name, text) = dns_record("ada.example", "s", pair.public_key());
    let records = Records::from([(name, text)]);
    let good = verify_all(messages.iter().map(String::as_bytes), &records);
    for (message, good) in messages.iter().zip(good) {
        assert_eq!(good, [true], "{message:?}");
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
