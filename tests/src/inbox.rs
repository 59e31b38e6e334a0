//! The mailbox as another IMAP client sees it.

use async_imap::Session;
use latchmail::auth::secrets::{AppPassword, id, refresh_token, sha256_hex};
use latchmail::clock::Timestamp;
use latchmail::config::Database;
use latchmail::directory::Directory;
use latchmail::directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail::directory::sessions::NewSession;
use secrecy::ExposeSecret as _;
use tokio::net::TcpStream;

use crate::Person;

/// A connection of another IMAP client to a person's mailbox, with a credential of its own.
///
/// No route makes app passwords for mail clients yet, so this one is put into the directory as the app password of one more session.
pub async fn imap(person: &Person<'_>) -> Session<TcpStream> {
    let service = person.service;
    let now = service.clock.now();
    let secret = app_password(service.database(), &person.address, now).await;
    let stream = TcpStream::connect(service.stack.imap).await.unwrap();
    let mut client = async_imap::Client::new(stream);
    client.read_response().await.unwrap();
    client.login(&person.address, secret).await.unwrap()
}

/// A new app password of the account with that address, put into the service's database.
pub async fn app_password(database: &Database, address: &str, now: Timestamp) -> String {
    let directory = Directory::open(database, &[]).await.unwrap();
    let account = directory
        .account_by_address(address)
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
        },
        sealed_password: Vec::new(),
        refresh_hash: sha256_hex(token.expose_secret()),
        created_at: now,
        expires_at: now.plus(std::time::Duration::from_hours(24)),
    };
    directory.begin_session(&session).await.unwrap();
    directory.db().close().await;
    password.secret().expose_secret().to_owned()
}
