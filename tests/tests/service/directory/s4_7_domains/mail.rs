//! Mail to a domain: the recipients that the mail servers accept.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Service, alias};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{EXAMPLE, TAKEN, World, claim, list, release, text, verify};

const HAS_ALIASES: &str = "Remove all aliases on this domain first";

/// An external SMTP session with the mail server.
struct Outside(BufReader<TcpStream>);

impl Outside {
    async fn connect(service: &Service) -> Self {
        Self::connect_to(service.mail().smtp).await
    }

    async fn connect_to(port: SocketAddr) -> Self {
        let stream = TcpStream::connect(port).await.unwrap();
        let mut session = Self(BufReader::new(stream));
        assert_eq!(session.reply().await, 220);
        assert_eq!(session.say("EHLO outside.test").await, 250);
        session
    }

    async fn say(&mut self, line: &str) -> u16 {
        let line = format!("{line}\r\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
        self.reply().await
    }

    async fn reply(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).await.unwrap() > 0, "hung up");
            if line.as_bytes()[3] == b' ' {
                return line[..3].parse().unwrap();
            }
        }
    }

    /// The response for a recipient.
    async fn recipient(&mut self, address: &str) -> u16 {
        assert_eq!(self.say("MAIL FROM:<sender@outside.test>").await, 250);
        let answered = self.say(&format!("RCPT TO:<{address}>")).await;
        assert_eq!(self.say("RSET").await, 250);
        answered
    }

    async fn deliver(&mut self, address: &str, subject: &str) {
        assert_eq!(self.say("MAIL FROM:<sender@outside.test>").await, 250);
        assert_eq!(self.say(&format!("RCPT TO:<{address}>")).await, 250);
        assert_eq!(self.say("DATA").await, 354);
        let message = format!("Subject: {subject}\r\n\r\nx\r\n.");
        assert_eq!(self.say(&message).await, 250);
    }
}

#[tokio::test]
async fn an_alias_receives_in_an_smtp_session_that_began_before_the_verification() {
    let world = World::with_own_mail().await;
    let service = &world.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let info = "info@ada.example";
    let mut outside = Outside::connect(service).await;
    let refused = outside.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");

    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    let refused = outside.recipient(info).await;
    assert!(
        (500..600).contains(&refused),
        "there is no alias yet: {refused}"
    );
    assert_eq!(outside.recipient("other@ada.example").await, 550);
    alias(&ada, info, true).await;
    outside.deliver(info, "To the alias").await;
    ada.arrives("To the alias").await;

    // A domain with an alias cannot be released; a disabled alias counts too.
    release(&ada, EXAMPLE).await.fails(409, HAS_ALIASES);
    service
        .execute("UPDATE addresses SET active = FALSE WHERE address = 'info@ada.example'")
        .await;
    let refused = outside.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");
    release(&ada, EXAMPLE).await.fails(409, HAS_ALIASES);
    assert_eq!(list(&ada).await["domains"][0]["status"], "active");
    service
        .execute("UPDATE addresses SET live = FALSE WHERE address = 'info@ada.example'")
        .await;
    release(&ada, EXAMPLE).await.succeeds(200);
    let refused = outside.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");
    assert_eq!(outside.recipient("ada@first.test").await, 250);

    // Its next owner can have every address on it.
    let bob = service.person("bob").await;
    world.active(&bob, EXAMPLE).await;
    alias(&bob, info, true).await;
    outside.deliver(info, "To its next owner").await;
    bob.arrives("To its next owner").await;
    assert!(ada.messages("INBOX").await.len() == 1);
}

#[tokio::test]
async fn a_session_of_a_mail_client_sees_the_addresses_of_a_newly_verified_domain() {
    let world = World::with_own_mail().await;
    let service = &world.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let phone = ada.app_password("phone").await;
    let (username, password) = (text(&phone, "username"), text(&phone, "password"));
    let plain = STANDARD.encode(format!("\0{username}\0{password}"));
    let mut client = Outside::connect_to(service.mail().submission).await;
    assert_eq!(client.say(&format!("AUTH PLAIN {plain}")).await, 235);
    let to = async |client: &mut Outside, address: &str| {
        assert_eq!(client.say("MAIL FROM:<ada@first.test>").await, 250);
        let answered = client.say(&format!("RCPT TO:<{address}>")).await;
        assert_eq!(client.say("RSET").await, 250);
        answered
    };
    let info = "info@ada.example";
    assert_eq!(
        to(&mut client, info).await,
        250,
        "the recipient may exist elsewhere"
    );
    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(to(&mut client, info).await, 550, "no alias yet");
    alias(&ada, info, true).await;
    assert_eq!(to(&mut client, info).await, 250);
    assert_eq!(to(&mut client, "else@outside.test").await, 250);
    assert_eq!(to(&mut client, "nobody@first.test").await, 550);
}

#[tokio::test]
async fn the_domains_of_a_deleted_account_are_available_immediately() {
    let world = World::with_own_mail().await;
    let service = &world.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    world.active(&ada, EXAMPLE).await;
    alias(&ada, "info@ada.example", true).await;
    claim(&bob, EXAMPLE).await.fails(409, TAKEN);
    let deleted = service.operator("account delete ada@first.test --yes", "");
    deleted.await.done();
    let mut outside = Outside::connect(service).await;
    let refused = outside.recipient("info@ada.example").await;
    assert!((500..600).contains(&refused), "{refused}");
    world.dns.clear();
    world.active(&bob, EXAMPLE).await;
    alias(&bob, "info@ada.example", true).await;
    assert_eq!(outside.recipient("info@ada.example").await, 250);
}
