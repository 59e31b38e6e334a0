//! The memory for messages that are being sent, and each account's share of it.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use latchmail_tests::{Person, Relay, Service, random_bytes};
use serde_json::json;

use super::attachments::file;
use super::{SEND, mail, send_mail, with};

const MAIL_SERVER_DOWN: &str = "Mail server is initializing, please try again in a moment";

#[tokio::test]
async fn large_mails_of_one_account_leave_memory_for_other_accounts() {
    let relay = Relay::new().await;
    let settings = format!("smtp.address = '{}'\nsmtp.timeout = 3", relay.address);
    let service = Service::with_mail_and(&settings).await;
    relay.set_target(service.mail().submission);
    let (ada, _bob) = (service.person("ada").await, service.person("bob").await);
    let (mallory, trudy) = (
        service.person("mallory").await,
        service.person("trudy").await,
    );
    // The submission service holds them for six times `smtp.timeout`.
    relay.stall_at("Subject: Never taken");
    let film = json!([file("film.mp4", "video/mp4", &random_bytes(19_100_000))]);
    let large = with(mail("Never taken"), "attachments", film);
    let of = |sender: &Person<'_>| with(large.clone(), "from", &*sender.address);
    let (first, second) = (of(&mallory), of(&trudy));
    let mut attack = FuturesUnordered::new();
    for (sender, mail) in [(&mallory, &first), (&mallory, &first), (&trudy, &second)] {
        attack.push(sender.post(SEND, mail));
    }
    tokio::select! {
        refused = attack.next() => refused.unwrap().fails(503, MAIL_SERVER_DOWN),
        () = relay.wait_for_stalled(3) => (),
    }
    let film = json!([file("film.mp4", "video/mp4", &random_bytes(9_000_000))]);
    let large = with(mail("large"), "attachments", film);
    for mail in [mail("small"), large] {
        send_mail(&ada, &mail).await;
    }
    relay.wait_for_stalled(2).await;
    assert_eq!(relay.stalled_connections(), 2);
    // The same account can still send small messages.
    let small = with(mail("small"), "from", &*mallory.address);
    send_mail(&mallory, &small).await;
}
