//! The memory for messages that are being sent, and each account's share of it.

use std::convert::Infallible;

use futures_util::future::join3;
use latchmail_tests::{Person, Relay, Service, random_bytes};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::attachments::file;
use super::{SEND, mail, send_mail, with};

const MAIL_SERVER_DOWN: &str = "Mail server is unavailable, please try again in a moment";

#[tokio::test]
async fn large_mails_of_one_account_leave_memory_for_other_accounts() {
    let relay = Relay::new().await;
    let settings = format!("smtp.address = '{}'\nsmtp.timeout = 10", relay.address);
    let service = Service::with_mail_and(&settings).await;
    relay.set_target(service.mail().submission);
    let (ada, _bob) = (service.person("ada").await, service.person("bob").await);
    let (mallory, trudy) = (
        service.person("mallory").await,
        service.person("trudy").await,
    );
    // The service reaches the mail server. Until then, the mail server is reported as starting.
    assert_eq!(ada.total("INBOX").await, 0);
    // The service waits for the reply to a message for six times `smtp.timeout`.
    relay.stall_at("Subject: Never taken");
    let film = json!([file("film.mp4", "video/mp4", &random_bytes(19_100_000))]);
    let large = with(mail("Never taken"), "attachments", film);
    let of = |sender: &Person<'_>| with(large.clone(), "from", &*sender.address);
    let (first, second) = (of(&mallory), of(&trudy));
    // Each sender repeats a rejected message, as an attacker does.
    let refused = watch::Sender::new(0);
    let repeats = async |sender: &Person<'_>, mail: &Value| -> Infallible {
        loop {
            sender.post(SEND, mail).await.fails(503, MAIL_SERVER_DOWN);
            refused.send_modify(|refused| *refused += 1);
        }
    };
    let attack = join3(
        repeats(&mallory, &first),
        repeats(&mallory, &first),
        repeats(&trudy, &second),
    );
    let others = async {
        relay.wait_for_stalled(2).await;
        let mut refused = refused.subscribe();
        refused.wait_for(|refused| *refused > 0).await.unwrap();
        let film = json!([file("film.mp4", "video/mp4", &random_bytes(9_000_000))]);
        let large = with(mail("large"), "attachments", film);
        for mail in [mail("small"), large] {
            send_mail(&ada, &mail).await;
        }
        // The same account can still send small messages.
        let small = with(mail("small"), "from", &*mallory.address);
        send_mail(&mallory, &small).await;
    };
    tokio::select! {
        _ = attack => {}
        () = relay.wait_for_stalled(3) => panic!("one account used the memory of two"),
        () = others => {}
    }
}
