//! The outbox of the fake host. The outbox stores messages and does not send them.

use std::rc::Rc;

use super::{Account, FakeHost, Need};
use crate::capability::{Draft, Error, Outbox, Scope, Sent};
use crate::testing::letter::Letter;
use latchmail_shape::codes;

/// Maximum size of a complete message in bytes.
const MAX_MESSAGE: usize = 26_214_400;

/// A message that the module sent.
#[derive(Debug)]
pub struct SentMessage {
    /// The message.
    pub draft: Draft,
    /// Idempotency key that the client sent.
    pub key: Option<String>,
}

impl FakeHost {
    /// Makes [`Outbox::send`] fail with this error for the signed-in account.
    #[track_caller]
    pub fn fail_sending(&self, error: Error) {
        self.with_account(|account| account.sending_fault = Some(error));
    }

    /// Returns the messages that the signed-in account sent, oldest first.
    #[must_use]
    #[track_caller]
    pub fn sent(&self) -> Vec<Rc<SentMessage>> {
        self.with_account(|account| account.sent.iter().map(|(one, _)| Rc::clone(one)).collect())
    }
}

impl Account {
    fn check_sender(&self, address: &str) -> Result<(), Error> {
        let own = address.eq_ignore_ascii_case(&self.address);
        let mut active = self.aliases.iter().filter(|alias| alias.active);
        if own || active.any(|alias| alias.address.eq_ignore_ascii_case(address)) {
            return Ok(());
        }
        let text = "You can only send from your own address or active aliases";
        Err(Error::denied(codes::SENDER_NOT_ALLOWED, text))
    }
}

/// A sent message is stored in the folder `Sent` and in the list of [`FakeHost::sent`]. The message
/// is not delivered.
impl Outbox for FakeHost {
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailSend), |account| {
            account.check_sender(&draft.from)?;
            if let Some(error) = &account.sending_fault {
                return Err(error.clone());
            }
            let mut earlier = account
                .sent
                .iter()
                .filter(|(one, _)| key.is_some() && one.key.as_deref() == key);
            if let Some((earlier, sent)) = earlier.next() {
                // `Draft` does not implement `PartialEq`, so the debug texts are compared. They
                // include all fields and the content of the files.
                if format!("{:?}", earlier.draft) != format!("{draft:?}") {
                    let text = "This Idempotency-Key was used for another message";
                    return Err(Error::conflict(codes::IDEMPOTENCY_KEY_REUSED, text));
                }
                return Ok(Sent {
                    replayed: true,
                    ..sent.clone()
                });
            }
            check(&draft)?;
            let uid = account.mail.put("Sent", Letter::sent(&draft).date(now));
            let sent = Sent {
                message_id: format!("<{uid}@example.test>"),
                saved_to: Some("Sent".into()),
                replayed: false,
            };
            let message = Rc::new(SentMessage {
                draft,
                key: key.map(Into::into),
            });
            account.sent.push((message, sent.clone()));
            Ok(sent)
        })
    }
}

/// Checks whether a draft is valid, has a recipient, and does not exceed the maximum size.
fn check(draft: &Draft) -> Result<(), Error> {
    let invalid = |text: &str| Err(Error::invalid(codes::INVALID_DRAFT, text));
    let line = |text: &str| !text.chars().any(char::is_control);
    let mut recipients = draft
        .to
        .iter()
        .chain(&draft.cc)
        .chain(&draft.bcc)
        .peekable();
    if recipients.peek().is_none() {
        return invalid("A message needs a recipient");
    }
    let is_address = |text: &str| {
        let parts = text.rsplit_once('@');
        parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
            && line(text)
            && !text.contains(' ')
    };
    if !recipients.all(|one| line(&one.name) && is_address(&one.address)) {
        return invalid("A recipient is not an address");
    }
    if !line(&draft.subject) {
        return invalid("The subject must be one line");
    }
    let is_type = |text: &str| text.split('/').count() == 2 && line(text);
    let mut files = draft.files.iter();
    if !files.all(|file| line(&file.filename) && is_type(&file.content_type)) {
        return invalid("A file's name or media type is invalid");
    }
    let texts = [draft.text.as_ref(), draft.html.as_ref()]
        .into_iter()
        .flatten();
    let files = draft
        .files
        .iter()
        .map(|file| file.content.in_memory().map_or(0, <[u8]>::len));
    // A message contains files in base64, which needs 4 bytes for each 3 bytes of a file.
    if texts.map(String::len).sum::<usize>() + files.sum::<usize>() / 3 * 4 > MAX_MESSAGE {
        return Err(Error::too_large(
            codes::MESSAGE_TOO_LARGE,
            "the message exceeds the 25 MB limit",
        ));
    }
    Ok(())
}
