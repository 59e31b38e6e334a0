//! Verifies an attached mail server: looks up a user, logs in, and delivers and sends a message.
//! Removes everything that the checks created.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use latchmail_core::caller::{MailCredential, Origin, Proof};
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::secrets::{self, AppPassword};
use latchmail_directory::Directory;
use latchmail_directory::accounts::{Creation, NewAccount};
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_imap::{Connector, INBOX, SearchKey, Session};
use latchmail_mailbox::outbox;
use latchmail_terminal::output::print_line;
use secrecy::SecretString;
use tokio::time::sleep;

use super::dovecot::Dovecot;
use super::test_users::TestUser;

/// The time until a log-in with an app password must succeed. After a reload, old processes of
/// Dovecot can handle log-ins for a short time.
const LOG_IN_TIMEOUT: Duration = Duration::from_secs(15);
/// The time until a message must be in the mailbox. Spam filters can take several seconds.
const DELIVERY_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The first words of the subject of a test message.
pub(super) const TEST_SUBJECT: &str = "Latchmail test";

/// The lifetime of the app password for the checks. The app password is revoked after the checks,
/// so the lifetime matters only if the revocation fails.
const CREDENTIAL_LIFETIME: Duration = Duration::from_mins(10);

/// Checks that Dovecot finds the existing user. If the operator gave the user's password, also
/// checks that the user can log in.
///
/// # Errors
/// Returns an error that names the failed check.
pub(super) async fn existing(
    config: &Config,
    dovecot: &Dovecot,
    user: &TestUser,
) -> anyhow::Result<()> {
    dovecot
        .look_up(&user.login)
        .with_context(|| format!("Dovecot does not find the user {}", user.login))?;
    print_line(&format!("verified: Dovecot finds the user {}", user.login))?;
    if let Some(password) = &user.password {
        let connector = Connector::new(&config.imap)?;
        log_in(&connector, &credential(&user.login, password.clone()))
            .await
            .context("the existing password of the test user does not work over IMAP")?;
        print_line("verified: the existing password works over IMAP")?;
    }
    Ok(())
}

/// Checks the attachment with one user after the other, until the checks succeed. The cause of a
/// failure can be a single mailbox, for example a full mailbox.
///
/// # Errors
/// Returns an error with the failed check of each user.
pub(super) async fn attached_with_any(
    config: &Config,
    directory: &Directory,
    users: &[TestUser],
    postfix: &str,
) -> anyhow::Result<()> {
    let mut failures = Vec::new();
    for user in users {
        let Err(error) = Box::pin(attached(config, directory, user, postfix)).await else {
            return Ok(());
        };
        if users.len() == 1 {
            return Err(error);
        }
        let failure = format!("{}: {error:#}", user.address);
        print_line(&format!("failed with {failure}"))?;
        failures.push(failure);
    }
    bail!(
        "the checks failed with each test user: {}",
        failures.join("; ")
    )
}

/// Checks a log-in with an app password, a delivery and a submitted message. Creates an account for
/// the user if necessary, and deletes this account afterwards.
///
/// # Errors
/// Returns an error that names the failed check.
async fn attached(
    config: &Config,
    directory: &Directory,
    user: &TestUser,
    postfix: &str,
) -> anyhow::Result<()> {
    let (clock, origin) = (Clock::system(), Origin::operator());
    let existing = directory.accounts.by_address(&user.address).await?;
    let is_new = existing.is_none();
    let (account, previous_name) = match existing {
        Some(account) => (account.id, account.login_name),
        None => (
            create_account(directory, &user.address, &clock).await?,
            None,
        ),
    };
    let name = (user.login != user.address).then_some(user.login.as_str());
    directory.accounts.set_login_name(&account, name).await?;
    let secret = AppPassword::generate()?;
    let password = NewAppPassword {
        id: secrets::id()?,
        kind: AppPasswordKind::AppPassword,
        label: "latchmail attach".into(),
        selector: secret.selector().to_owned(),
        secret_hash: secret.hash(),
        expires_at: Some(clock.now().plus(CREDENTIAL_LIFETIME)),
        policy: None,
    };
    directory
        .credentials
        .create_app_password_for(&account, &password, clock.now(), &origin)
        .await?;
    let credential = credential(&user.address, secret.secret().clone());
    let result = use_mailbox(config, &credential, &user.address, postfix).await;

    let now = clock.now();
    let cleaned = async {
        directory
            .credentials
            .revoke_app_password(&account, &password.id, now, &origin)
            .await?;
        if is_new {
            directory.accounts.delete(&account, now, &origin).await?;
            directory
                .aliases
                .free_address(&user.address, now, &origin)
                .await?;
        } else {
            directory
                .accounts
                .set_login_name(&account, previous_name.as_deref())
                .await?;
        }
        Ok::<_, latchmail_directory::Error>(())
    };
    let cleaned = cleaned.await;
    result?;
    Ok(cleaned?)
}

async fn create_account(
    directory: &Directory,
    address: &str,
    clock: &Clock,
) -> anyhow::Result<String> {
    let account = NewAccount::of_mail_server_user(secrets::id()?, address.to_owned(), clock.now());
    let created = directory
        .accounts
        .create(&account, None, &Origin::operator())
        .await?;
    match created {
        Creation::Created => Ok(account.id),
        Creation::AddressTaken => bail!(
            "{address} is an alias or a reserved address of Latchmail; choose another user with --test-user"
        ),
    }
}

/// Logs in, delivers a message with Postfix's `sendmail`, and submits a message. Deletes the
/// delivered and the submitted message.
async fn use_mailbox(
    config: &Config,
    credential: &MailCredential,
    address: &str,
    postfix: &str,
) -> anyhow::Result<()> {
    let connector = Connector::new(&config.imap)?;
    let start = Instant::now();
    let mut session = loop {
        match log_in(&connector, credential).await {
            Ok(session) => break session,
            Err(error) if start.elapsed() > LOG_IN_TIMEOUT => {
                return Err(error.context("an app password of Latchmail does not work over IMAP"));
            }
            Err(_) => sleep(POLL_INTERVAL).await,
        }
    };
    print_line("verified: an app password works over IMAP")?;

    let (token, message) = message(address)?;
    deliver(postfix, address, &message)?;
    receive(&mut session, &token)
        .await
        .context("a message that Postfix accepted did not arrive in the INBOX")?;
    print_line("verified: Postfix delivers to the mailbox")?;

    let (token, message) = self::message(address)?;
    outbox::submit(
        &config.smtp,
        credential,
        (address, address),
        message.as_bytes(),
    )
    .await
    .context("the submission service did not accept a message")?;
    receive(&mut session, &token)
        .await
        .context("a submitted message did not arrive in the INBOX")?;
    print_line("verified: the submission service accepts an app password")
}

fn credential(username: &str, password: SecretString) -> MailCredential {
    MailCredential {
        id: String::new(),
        username: username.to_owned(),
        proof: Proof::AppPassword(password),
    }
}

async fn log_in(connector: &Connector, credential: &MailCredential) -> anyhow::Result<Session> {
    Ok(connector.logged_in(credential).await?)
}

/// Returns a random token, and a message from `address` to `address` with the token in the subject.
fn message(address: &str) -> anyhow::Result<(String, String)> {
    let token = secrets::id()?;
    let message = format!(
        "From: <{address}>\r\nTo: <{address}>\r\nSubject: {TEST_SUBJECT} {token}\r\nMessage-ID: <{token}@latchmail.invalid>\r\n\r\n\
         `latchmail attach` sent this message to test the mail server. It is deleted immediately.\r\n"
    );
    Ok((token, message))
}

/// Passes a message to Postfix without a log-in.
fn deliver(postfix: &str, address: &str, message: &str) -> anyhow::Result<()> {
    use std::io::Write as _;

    let mut child = Command::new("sendmail")
        .args(["-C", postfix, "-i", "-f", address, "--", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `sendmail`")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(message.replace("\r\n", "\n").as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("`sendmail` failed: {}", text.trim());
    }
    Ok(())
}

/// Waits for the message with `token` in INBOX, and deletes the message.
async fn receive(session: &mut Session, token: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let keys = [SearchKey::Text(token.to_owned())];
        let found = session.search(INBOX, &keys).await?;
        let uids = found.map(|(_, uids)| uids).unwrap_or_default();
        if !uids.is_empty() {
            session.select(INBOX).await?;
            session.selected_folder()?.expunge(&uids).await?;
            return Ok(());
        }
        if start.elapsed() > DELIVERY_TIMEOUT {
            return Err(anyhow!(
                "the test message did not arrive within {} s; the mail log has the reason",
                DELIVERY_TIMEOUT.as_secs()
            ));
        }
        sleep(POLL_INTERVAL).await;
    }
}
