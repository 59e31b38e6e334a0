//! Another IMAP client of a person's mailbox.

use futures_util::TryStreamExt as _;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::config::Database;
use latchmail_core::secrets::{AppPassword, id, refresh_token, sha256_hex};
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::sessions::NewSession;
use secrecy::ExposeSecret as _;
use tokio::net::TcpStream;

use crate::{Imap, Person, Service, directory};

/// Connects another IMAP client to a person's mailbox, with an app password of its own.
pub async fn imap(person: &Person<'_>) -> Imap {
    let made = person.app_password("another client").await;
    let password = made["password"].as_str().unwrap();
    log_in(person.service, &person.address, password)
        .await
        .unwrap()
}

/// Connects an IMAP client.
///
/// # Errors
/// The mail server's response if it refuses the password.
pub async fn log_in(
    service: &Service,
    address: &str,
    password: &str,
) -> Result<Imap, async_imap::error::Error> {
    let stream = TcpStream::connect(service.mail().imap).await.unwrap();
    let mut client = async_imap::Client::new(stream);
    client.read_response().await.unwrap();
    client
        .login(address, password)
        .await
        .map_err(|(error, _)| error)
}

/// Adds a new app password for the account with that address to the service's database.
pub async fn app_password(database: &Database, address: &str, now: Timestamp) -> String {
    let directory = directory::open(database).await;
    let account = directory
        .accounts
        .by_address(address)
        .await
        .unwrap()
        .unwrap();
    let password = AppPassword::generate().unwrap();
    let token = refresh_token().unwrap();
    let session = NewSession {
        sid: id().unwrap(),
        account_id: account.id,
        app_password: NewAppPassword {
            id: id().unwrap(),
            kind: AppPasswordKind::WebSession,
            label: "another client".into(),
            selector: password.selector().into(),
            secret_hash: password.hash(),
            expires_at: None,
            policy: None,
        },
        sealed_password: Vec::new(),
        refresh_hash: sha256_hex(token.expose_secret()),
        created_at: now,
        expires_at: now.plus(std::time::Duration::from_hours(24)),
        provider: None,
    };
    directory
        .sessions
        .begin(&session, &Origin::default())
        .await
        .unwrap();
    directory.close().await;
    password.secret().expose_secret().to_owned()
}

/// Deletes all messages in a person's inbox, as another IMAP client does.
pub async fn expunge_all(person: &Person<'_>) {
    let mut client = imap(person).await;
    client.select("INBOX").await.unwrap();
    let store = client
        .store("1:*", "+FLAGS.SILENT (\\Deleted)")
        .await
        .unwrap();
    store.try_collect::<Vec<_>>().await.unwrap();
    let expunged = client.expunge().await.unwrap();
    expunged.try_collect::<Vec<_>>().await.unwrap();
}

/// A message with text, HTML, a file and an attached message.
pub const RICH_MESSAGE: &str = "From: Grace <grace@outside.test>
To: ada@first.test
Subject: Rich
Date: Thu, 19 Nov 2026 11:00:00 +0000
Message-ID: <two@outside.test>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=outer

--outer
Content-Type: multipart/alternative; boundary=inner

--inner
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Caf=E9
--inner
Content-Type: text/html; charset=utf-8

<p>Caf&eacute;</p>
--inner--
--outer
Content-Type: application/pdf; name=\"=?utf-8?Q?r=C3=A9sum=C3=A9.pdf?=\"
Content-Disposition: attachment; filename*=utf-8''r%C3%A9sum%C3%A9.pdf
Content-Transfer-Encoding: base64

JVBERi0xLjQ=
--outer
Content-Type: message/rfc822

Subject: inner

nested
--outer--
";
