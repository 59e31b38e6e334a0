//! The fields of a message in a request. Each field is optional: a field that the request does not
//! have is taken from a draft that the host composed.

use latchmail_sdk::capability::{Address, Blob, Draft, File};
use latchmail_sdk::{Failure, Object, codes};

use super::attachments::{self, SendAttachment};
use super::headers;
use super::{MAX_ATTACHMENTS, MAX_NAME, MAX_RECIPIENTS, MAX_SUBJECT, SendHeader, SendRequest};
use crate::message_ids::{self, MessageIds};
use crate::quotation;
use crate::recipients::{self, Recipients};

/// The fields of a message in a request.
#[derive(Default)]
#[expect(missing_docs, reason = "`SendRequest` describes the fields")]
pub struct MessageFields {
    pub from: Option<String>,
    pub from_name: Option<String>,
    pub reply_to: Option<Recipients>,
    pub to: Option<Recipients>,
    pub cc: Option<Recipients>,
    pub bcc: Option<Recipients>,
    pub subject: Option<String>,
    pub text: Option<String>,
    pub html: Option<String>,
    pub in_reply_to: Option<String>,
    pub references: Option<MessageIds>,
    pub headers: Option<Vec<Object<SendHeader>>>,
    pub attachments: Option<Vec<Object<SendAttachment>>>,
}

impl From<SendRequest> for MessageFields {
    fn from(body: SendRequest) -> Self {
        Self {
            from: Some(body.from),
            from_name: body.from_name,
            reply_to: Some(body.reply_to),
            to: Some(body.to),
            cc: Some(body.cc),
            bcc: Some(body.bcc),
            subject: Some(body.subject),
            text: body.text,
            html: body.html,
            in_reply_to: body.in_reply_to,
            references: body.references,
            headers: body.headers,
            attachments: body.attachments,
        }
    }
}

impl MessageFields {
    /// Returns a complete draft. The fields of the request replace those of `composed`, except
    /// `text` and `html`, which are above the quotation. Pictures that the quotation shows are
    /// part of the quotation, so `attachments` does not replace them. `take` returns the content of
    /// an attachment.
    ///
    /// # Errors
    /// Returns 400 if a field is invalid, or if the message has no recipient in To.
    pub fn draft(
        self,
        composed: Option<Draft>,
        take: &impl Fn(usize) -> Option<Blob>,
    ) -> Result<Draft, Failure> {
        let composed = composed.unwrap_or_else(empty);
        let count = self.attachments.as_ref().map_or(0, Vec::len);
        if count > MAX_ATTACHMENTS {
            return Err(Failure::bad_request(
                codes::TOO_MANY_ATTACHMENTS,
                "attachments must be at most 20 files",
            ));
        }
        if let Some(subject) = &self.subject {
            check_subject(subject)?;
            if subject.chars().count() > MAX_SUBJECT {
                return Err(Failure::bad_request(
                    codes::INVALID_SUBJECT,
                    "subject must be at most 998 characters",
                ));
            }
        }
        let list = |given: Option<Recipients>, field: &str, composed: Vec<Address>| match given {
            Some(given) => given.addresses(field, MAX_RECIPIENTS),
            None => Ok(composed),
        };
        let to = list(self.to, "to", composed.to)?;
        let cc = list(self.cc, "cc", composed.cc)?;
        let bcc = list(self.bcc, "bcc", composed.bcc)?;
        if to.is_empty() {
            return Err(Failure::bad_request(
                codes::INVALID_RECIPIENT,
                "to must name at least one recipient",
            ));
        }
        if to.len() + cc.len() + bcc.len() > MAX_RECIPIENTS {
            return Err(Failure::bad_request(
                codes::TOO_MANY_RECIPIENTS,
                "Too many recipients (max 50 across to, cc and bcc)",
            ));
        }
        let reply_to = list(self.reply_to, "replyTo", composed.reply_to)?;
        if reply_to.len() > MAX_RECIPIENTS {
            return Err(Failure::bad_request(
                codes::INVALID_RECIPIENT,
                "replyTo must be at most 50 addresses",
            ));
        }
        let in_reply_to = match self.in_reply_to {
            Some(given) => in_reply_to(&given)?,
            None => composed.in_reply_to,
        };
        let name = sender_name(self.from_name)?;
        let address = match self.from {
            Some(from) => Some(sender(&from)?),
            None => composed.from.map(|from| from.address),
        };
        let references = match self.references {
            Some(given) => given.ids("references")?,
            None => composed.references,
        };
        let headers = match self.headers {
            Some(given) => headers::headers(given)?,
            None => composed.headers,
        };
        let files = match self.attachments {
            Some(given) => {
                let pictures = composed.files.into_iter().filter(is_picture).collect();
                attachments::files(pictures, given, take)?
            }
            None => composed.files,
        };
        let quoted = (composed.text, composed.html);
        let (text, html) = quotation::above(self.text, self.html, quoted);
        Ok(Draft {
            from: address.map(|address| Address { name, address }),
            to,
            cc,
            bcc,
            reply_to,
            subject: self.subject.unwrap_or(composed.subject),
            text,
            html,
            in_reply_to,
            references,
            headers,
            files,
            original: composed.original,
        })
    }
}

/// Returns a draft without content.
fn empty() -> Draft {
    Draft {
        from: None,
        to: Vec::new(),
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: String::new(),
        text: None,
        html: None,
        in_reply_to: None,
        references: Vec::new(),
        headers: Vec::new(),
        files: Vec::new(),
        original: None,
    }
}

/// Returns whether the HTML of a quotation shows a file.
pub(super) fn is_picture(file: &File) -> bool {
    file.inline && file.content_id.is_some()
}

/// Checks that a header field can contain a subject.
pub(super) fn check_subject(subject: &str) -> Result<(), Failure> {
    let failure = |text| Err(Failure::bad_request(codes::INVALID_SUBJECT, text));
    if subject.contains(['\r', '\n']) {
        return failure("subject must not have line breaks");
    }
    if subject.chars().any(|c| c.is_control() && c != '\t') {
        return failure("subject must not have control characters");
    }
    Ok(())
}

/// Returns the Message-ID in `inReplyTo`, or `None` if the text is empty.
fn in_reply_to(given: &str) -> Result<Option<String>, Failure> {
    let id = given.trim_matches(' ');
    if !id.is_empty() && !message_ids::is_id(id) {
        return Err(Failure::bad_request(
            codes::INVALID_MESSAGE_ID,
            "inReplyTo must be one Message-ID in angle brackets",
        ));
    }
    Ok((!id.is_empty()).then(|| id.to_owned()))
}

/// Returns the display name of the sender, or an empty text.
fn sender_name(name: Option<String>) -> Result<String, Failure> {
    let name = name.unwrap_or_default();
    if name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control) {
        return Ok(name.trim().to_owned());
    }
    Err(Failure::bad_request(
        codes::INVALID_SENDER,
        "fromName must be at most 255 characters without control characters",
    ))
}

/// Returns the address in `from`. Returns 400 if the text is not one address without a display
/// name.
fn sender(from: &str) -> Result<String, Failure> {
    let bare = recipients::read(from, 1)
        .filter(|all| all.len() == 1)
        .and_then(|mut all| all.pop())
        .filter(|one| one.address == from);
    bare.map(|one| one.address).ok_or(Failure::bad_request(
        codes::INVALID_SENDER,
        "from must be one mail address without a name",
    ))
}
