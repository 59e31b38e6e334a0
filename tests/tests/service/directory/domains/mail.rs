//! Mail to a domain: the recipients that the mail servers accept.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Service, add_alias};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{EXAMPLE, TAKEN, TestEnv, claim, list, release, text, verify};

const HAS_ALIASES: &str = "Remove all aliases on this domain first";

/// An external SMTP session with the mail server.
struct SmtpSession(BufReader<TcpStream>);

impl SmtpSession {
    async fn connect(service: &Service) -> Self {
        Self::connect_to(service.mail().smtp).await
    }

    async fn connect_to(port: SocketAddr) -> Self {
        let stream = TcpStream::connect(port).await.unwrap();
        let mut session = Self(BufReader::new(stream));
        assert_eq!(session.reply().await, 220);
        assert_eq!(session.send("EHLO outside.test").await, 250);
        session
    }

    async fn send(&mut self, line: &str) -> u16 {
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

    /// Sends RCPT for a recipient, and returns the status code.
    async fn recipient(&mut self, address: &str) -> u16 {
        assert_eq!(self.send("MAIL FROM:<sender@outside.test>").await, 250);
        let answered = self.send(&format!("RCPT TO:<{address}>")).await;
        assert_eq!(self.send("RSET").await, 250);
        answered
    }

    async fn deliver(&mut self, address: &str, subject: &str) {
        assert_eq!(self.send("MAIL FROM:<sender@outside.test>").await, 250);
        assert_eq!(self.send(&format!("RCPT TO:<{address}>")).await, 250);
        assert_eq!(self.send("DATA").await, 354);
        let message = format!("Subject: {subject}\r\n\r\nx\r\n.");
        assert_eq!(self.send(&message).await, 250);
    }
}

#[tokio::test]
async fn an_alias_receives_in_an_smtp_session_that_began_before_the_verification() {
    let env = TestEnv::with_own_mail().await;
    let service = &env.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let info = "info@ada.example";
    let mut session = SmtpSession::connect(service).await;
    let refused = session.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");

    env.publish_record(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    let refused = session.recipient(info).await;
    assert!(
        (500..600).contains(&refused),
        "there is no alias yet: {refused}"
    );
    assert_eq!(session.recipient("other@ada.example").await, 550);
    add_alias(&ada, info, true).await;
    session.deliver(info, "To the alias").await;
    ada.wait_for_message("To the alias").await;

    // A domain with an alias cannot be released; a disabled alias counts too.
    release(&ada, EXAMPLE).await.fails(409, HAS_ALIASES);
    service
        .execute("UPDATE addresses SET active = FALSE WHERE address = 'info@ada.example'")
        .await;
    let refused = session.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");
    release(&ada, EXAMPLE).await.fails(409, HAS_ALIASES);
    assert_eq!(list(&ada).await["domains"][0]["status"], "active");
    service
        .execute("UPDATE addresses SET live = FALSE WHERE address = 'info@ada.example'")
        .await;
    release(&ada, EXAMPLE).await.succeeds(200);
    let refused = session.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");
    assert_eq!(session.recipient("ada@first.test").await, 250);

    // Its next owner can have every address on it.
    let bob = service.person("bob").await;
    env.active(&bob, EXAMPLE).await;
    add_alias(&bob, info, true).await;
    session.deliver(info, "To its next owner").await;
    bob.wait_for_message("To its next owner").await;
    assert!(ada.messages("INBOX").await.len() == 1);
}

#[tokio::test]
async fn a_session_of_a_mail_client_sees_the_addresses_of_a_newly_verified_domain() {
    let env = TestEnv::with_own_mail().await;
    let service = &env.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let phone = ada.app_password("phone").await;
    let (username, password) = (text(&phone, "username"), text(&phone, "password"));
    let plain = STANDARD.encode(format!("\0{username}\0{password}"));
    let mut client = SmtpSession::connect_to(service.mail().submission).await;
    assert_eq!(client.send(&format!("AUTH PLAIN {plain}")).await, 235);
    let to = async |client: &mut SmtpSession, address: &str| {
        assert_eq!(client.send("MAIL FROM:<ada@first.test>").await, 250);
        let answered = client.send(&format!("RCPT TO:<{address}>")).await;
        assert_eq!(client.send("RSET").await, 250);
        answered
    };
    let info = "info@ada.example";
    assert_eq!(
        to(&mut client, info).await,
        250,
        "the recipient may exist elsewhere"
    );
    env.publish_record(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(to(&mut client, info).await, 550, "no alias yet");
    add_alias(&ada, info, true).await;
    assert_eq!(to(&mut client, info).await, 250);
    assert_eq!(to(&mut client, "else@outside.test").await, 250);
    assert_eq!(to(&mut client, "nobody@first.test").await, 550);
}

#[tokio::test]
async fn the_domains_of_a_deleted_account_are_available_immediately() {
    let env = TestEnv::with_own_mail().await;
    let service = &env.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    env.active(&ada, EXAMPLE).await;
    add_alias(&ada, "info@ada.example", true).await;
    claim(&bob, EXAMPLE).await.fails(409, TAKEN);
    let deleted = service.operator("account delete ada@first.test --yes", "");
    deleted.await.succeeds();
    let mut session = SmtpSession::connect(service).await;
    let refused = session.recipient("info@ada.example").await;
    assert!((500..600).contains(&refused), "{refused}");
    env.dns.clear();
    env.active(&bob, EXAMPLE).await;
    add_alias(&bob, "info@ada.example", true).await;
    assert_eq!(session.recipient("info@ada.example").await, 250);
}
