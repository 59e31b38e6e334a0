//! Allowed senders and recipients of a mail.

use latchmail_tests::{Service, add_alias, imap, stored_messages};
use serde_json::{Value, json};

use super::{
    SEND, assert_well_formed, found, mail, mail_to_other_servers, names, received_subjects,
    refused, send_mail, sink_messages, wait_for_mail, with,
};

const FOREIGN: &str = "You can only send from your own address or active aliases";
const ELSEWHERE: &str = "You do not have permission to send from this domain";

fn people(of: &[(&str, &str)]) -> Value {
    let people = of.iter();
    people
        .map(|(name, address)| json!({ "name": name, "address": address }))
        .collect()
}

#[tokio::test]
async fn recipients_are_accepted_in_every_form() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let carl = service.person("carl").await;
    let (b, c) = ("bob@first.test", "carl@first.test");
    for (given, read) in [
        (json!("bob@first.test"), people(&[("", b)])),
        (json!("<bob@first.test>"), people(&[("", b)])),
        (json!("  bob@first.test "), people(&[("", b)])),
        (json!("Bob <bob@first.test>"), people(&[("Bob", b)])),
        (json!(["bob@first.test"]), people(&[("", b)])),
        (
            json!("bob@first.test, carl@first.test"),
            people(&[("", b), ("", c)]),
        ),
        (
            json!("bob@first.test,carl@first.test"),
            people(&[("", b), ("", c)]),
        ),
        (
            json!("\"Quoted, Name\" <bob@first.test>, Carl Philip <carl@first.test>"),
            people(&[("Quoted, Name", b), ("Carl Philip", c)]),
        ),
        (
            json!("\"A \\\"quote\\\" and a \\\\\" <bob@first.test>"),
            people(&[("A \"quote\" and a \\", b)]),
        ),
        (
            json!(["Bob <bob@first.test>", "carl@first.test"]),
            people(&[("Bob", b), ("", c)]),
        ),
        (
            json!(["\"Comma, Inc.\" <bob@first.test>"]),
            people(&[("Comma, Inc.", b)]),
        ),
        (
            json!("Grüße Übermäßig <bob@first.test>"),
            people(&[("Grüße Übermäßig", b)]),
        ),
        (
            json!("\"日本語, 名前\" <bob@first.test>, 🎉 <carl@first.test>"),
            people(&[("日本語, 名前", b), ("🎉", c)]),
        ),
        (
            json!([format!("{} <bob@first.test>", "Лев ".repeat(60).trim())]),
            people(&[("Лев ".repeat(60).trim(), b)]),
        ),
    ] {
        for field in ["to", "cc"] {
            let to = with(mail("in every form"), "to", "bob@first.test");
            let sent = send_mail(&ada, &with(to, field, given.clone())).await;
            let received = wait_for_mail(&bob, &sent).await;
            assert_eq!(received[field], read, "{given}");
            if read.as_array().unwrap().len() == 2 {
                assert_eq!(wait_for_mail(&carl, &sent).await[field], read);
            }
        }
        let hidden = with(mail("in every form"), "to", "x@outside.test");
        let sent = send_mail(&ada, &with(hidden, "bcc", given.clone())).await;
        let received = wait_for_mail(&bob, &sent).await;
        assert_eq!(received["to"], people(&[("", "x@outside.test")]));
        assert_eq!(received["cc"], json!([]));
        if read.as_array().unwrap().len() == 2 {
            wait_for_mail(&carl, &sent).await;
        }
    }
    let mut client = imap(&bob).await;
    for message in stored_messages(&mut client, "INBOX").await {
        assert_well_formed(&message);
    }
}

#[tokio::test]
async fn a_bcc_recipient_receives_the_mail_and_is_not_in_its_header() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let (carl, dora) = (service.person("carl").await, service.person("dora").await);
    let open = with(mail("not for all eyes"), "cc", "Carl <carl@first.test>");
    let hidden = json!(["Dora <dora@first.test>", "eve@outside.test"]);
    let sent = send_mail(&ada, &with(open, "bcc", hidden)).await;
    for person in [&bob, &carl, &dora] {
        let received = wait_for_mail(person, &sent).await;
        assert_eq!(received["to"], people(&[("", "bob@first.test")]));
        assert_eq!(received["cc"], people(&[("Carl", "carl@first.test")]));
        assert!(received.get("bcc").is_none());
    }
    let mut messages = vec![found(&mut imap(&ada).await, "Sent", &sent).await];
    for person in [&bob, &carl, &dora] {
        messages.push(found(&mut imap(person).await, "INBOX", &sent).await);
    }
    for message in &messages {
        assert_eq!(message.header("bcc"), None);
        let text =
            String::from_utf8_lossy(super::without_trace_fields(&message.bytes)).to_lowercase();
        assert!(!text.contains("dora") && !text.contains("eve@"), "{text}");
    }
    let left = mail_to_other_servers(&service, 1).await;
    assert_eq!(left.iter().collect::<Vec<_>>(), ["eve@outside.test"]);
    let outside = sink_messages(&service).join("\n").to_lowercase();
    assert!(!outside.contains("bcc:") && !outside.contains("dora"));
}

#[tokio::test]
async fn a_domain_in_any_script_is_used_in_its_ascii_form() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let to = json!("Anna <anna@bücher.test>, x@例え.test");
    send_mail(&ada, &with(mail("abroad"), "to", to)).await;
    let left = mail_to_other_servers(&service, 2).await;
    let expected = ["anna@xn--bcher-kva.test", "x@xn--r8jz45g.test"];
    assert_eq!(left.iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn fifty_recipients_are_accepted_and_one_more_is_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let of = |from: usize, to: usize| -> Vec<String> {
        (from..to).map(|n| format!("p{n}@outside.test")).collect()
    };
    let too_many = with(mail("too many"), "to", of(0, 51));
    let list = with(mail("too many"), "to", of(0, 51).join(", "));
    let mut across = with(mail("too many"), "to", of(0, 20));
    across = with(across, "cc", of(20, 40).join(","));
    let one_more = with(across.clone(), "bcc", of(40, 51));
    for mail in [too_many, list, one_more] {
        refused(&ada.post(SEND, &mail).await, 400, "51 recipients");
    }
    let fifty = with(across, "bcc", of(40, 50));
    send_mail(&ada, &with(fifty, "subject", "just enough")).await;
    let left = mail_to_other_servers(&service, 50).await;
    assert_eq!(left, of(0, 50).into_iter().collect());
    assert_eq!(received_subjects(&ada, &bob).await, [""; 0]);
    assert!(
        !sink_messages(&service)
            .join("")
            .contains("Subject: too many")
    );
    assert_eq!(ada.total("Sent").await, 2);
}

#[tokio::test]
async fn an_invalid_address_is_refused_with_the_name_of_its_field() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for none in [
        "",
        " ",
        "bob",
        "@first.test",
        "bob@",
        "bob@@first.test",
        "bob@first..test",
        "bob@first.test carl@first.test",
        "Bob <bob@first.test",
        "Bob <>",
        "Bob <bob>",
        "bob@first.test; carl@first.test",
        "bob@fir st.test",
        "\"bob@first.test",
    ] {
        for list in [json!(none), json!([none]), json!(["bob@first.test", none])] {
            let to = with(mail("to nobody"), "to", list.clone());
            names(&ada.post(SEND, &to).await, "to", &list);
            if !none.trim().is_empty() {
                for field in ["cc", "bcc"] {
                    let mail = with(mail("to nobody"), field, list.clone());
                    names(&ada.post(SEND, &mail).await, field, &list);
                }
            }
        }
    }
    let nobody = with(mail("to nobody"), "to", json!([]));
    names(&ada.post(SEND, &nobody).await, "to", &json!([]));
    assert_eq!(received_subjects(&ada, &bob).await, [""; 0]);
    assert_eq!(ada.total("Sent").await, 1);
}

#[tokio::test]
async fn a_recipient_that_the_mail_server_refuses_is_named_and_the_mail_is_not_sent() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let carl = service.person("carl").await;
    add_alias(&carl, "asleep@first.test", false).await;
    for nobody in ["nobody@first.test", "asleep@first.test"] {
        for (field, list) in [
            ("to", format!("bob@first.test, Nobody <{nobody}>")),
            ("to", format!("{nobody}, bob@first.test")),
            ("cc", nobody.to_owned()),
            ("bcc", format!("carl@first.test, {nobody}")),
        ] {
            let response = ada.post(SEND, &with(mail("to some"), field, list)).await;
            response.fails_mentioning(400, nobody);
            let text = response.json["error"].as_str().unwrap();
            assert!(!text.contains("bob@") && !text.contains("carl@"), "{text}");
        }
    }
    assert_eq!(received_subjects(&ada, &bob).await, [""; 0]);
    assert_eq!(received_subjects(&ada, &carl).await, [""; 0]);
    assert_eq!(ada.total("Sent").await, 2);
}

#[tokio::test]
async fn the_sender_must_be_the_account_or_one_of_its_active_aliases() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_alias(&ada, "countess@first.test", true).await;
    add_alias(&ada, "enchantress@second.test", true).await;
    add_alias(&ada, "asleep@first.test", false).await;
    add_alias(&bob, "robert@first.test", true).await;
    let mut client = imap(&bob).await;
    for own in [
        "ada@first.test",
        "countess@first.test",
        "enchantress@second.test",
    ] {
        let sent = send_mail(&ada, &with(mail("from me"), "from", own)).await;
        assert_eq!(sent["savedTo"], "Sent");
        let received = wait_for_mail(&bob, &sent).await;
        assert_eq!(received["from"][0]["address"], own);
        let stored = found(&mut client, "INBOX", &sent).await;
        let sender = stored.header("return-path");
        assert_eq!(sender, Some(format!("<{own}>")));
        assert_eq!(stored.header("sender"), None);
        let from = stored.header("from").unwrap();
        assert!(own == "ada@first.test" || !from.contains("ada@"), "{from}");
    }
    for foreign in [
        "asleep@first.test",
        "bob@first.test",
        "robert@first.test",
        "nobody@first.test",
    ] {
        let mail = with(mail("from another"), "from", foreign);
        ada.post(SEND, &mail).await.fails(403, FOREIGN);
    }
    for other_session in [
        "ada@elsewhere.test",
        "someone@example.org",
        "ada@sub.first.test",
    ] {
        let mail = with(mail("from another"), "from", other_session);
        ada.post(SEND, &mail).await.fails(403, ELSEWHERE);
    }
    for none in [
        "",
        "ada",
        "@first.test",
        "ada@",
        "Ada <ada@first.test>",
        "\"Ada\" <ada@first.test>",
        "ada@first.test, bob@first.test",
        "ada@first.test (Ada)",
        "ada@first.test\r\nBcc: bob@first.test",
    ] {
        let response = ada.post(SEND, &with(mail("from none"), "from", none)).await;
        names(&response, "from", &json!(none));
    }
    // Replies to an alias arrive.
    let back = with(mail("back"), "from", "bob@first.test");
    let sent = send_mail(&bob, &with(back, "to", "countess@first.test")).await;
    wait_for_mail(&ada, &sent).await;
    let arrived = received_subjects(&ada, &bob).await;
    assert_eq!(arrived, ["from me", "from me", "from me"]);
    assert_eq!(ada.total("Sent").await, 4);
}
