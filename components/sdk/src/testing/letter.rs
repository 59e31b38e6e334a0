//! Builds messages for tests.

use super::NOW;
use crate::capability::{
    Address, Attachment, Authentication, Detail, Draft, MailingList, Spam, Summary, Timestamp,
    Verdict,
};

/// A message that [`FakeHost::deliver`](super::FakeHost::deliver) puts into a mailbox.
#[derive(Clone, Debug)]
pub struct Letter {
    detail: Detail,
    files: Vec<Vec<u8>>,
}

impl Letter {
    /// Creates an unread message without a subject or body. `sender` is `address` or
    /// `Name <address>`.
    #[must_use]
    pub fn from(sender: &str) -> Self {
        Self {
            detail: Detail {
                summary: Summary {
                    uid: 0,
                    seq: 0,
                    from: vec![address(sender)],
                    to: Vec::new(),
                    subject: String::new(),
                    date: NOW,
                    flags: Vec::new(),
                    size: 0,
                    preview: String::new(),
                    thread_id: String::new(),
                },
                cc: Vec::new(),
                reply_to: Vec::new(),
                message_id: String::new(),
                in_reply_to: None,
                references: Vec::new(),
                text: None,
                html: None,
                new_text: None,
                attachments: Vec::new(),
                truncated: false,
                authentication: Authentication {
                    verdict: Verdict::None,
                    domain: None,
                },
                folder: String::new(),
                mailing_list: None,
                auto_submitted: None,
                spam: Spam {
                    verdict: "none".into(),
                    score: None,
                },
                version: String::new(),
            },
            files: Vec::new(),
        }
    }

    /// Sets the authentication result of the sender, and the domain for which the result is valid.
    /// By default, a message has no result.
    #[must_use]
    pub fn authenticated(mut self, verdict: Verdict, domain: &str) -> Self {
        self.detail.authentication = Authentication {
            verdict,
            domain: Some(domain.into()),
        };
        self
    }

    /// Sets the identifier of the mailing list that sent the message.
    #[must_use]
    pub fn list(mut self, id: &str) -> Self {
        self.detail.mailing_list = Some(MailingList {
            id: Some(id.into()),
            unsubscribe: Vec::new(),
            one_click: false,
        });
        self
    }

    /// Sets the keyword of the Auto-Submitted header.
    #[must_use]
    pub fn auto_submitted(mut self, keyword: &str) -> Self {
        self.detail.auto_submitted = Some(keyword.into());
        self
    }

    /// Sets the result of the spam filter. By default, a message has no result.
    #[must_use]
    pub fn spam(mut self, verdict: &str, score: Option<f64>) -> Self {
        self.detail.spam = Spam {
            verdict: verdict.into(),
            score,
        };
        self
    }

    /// Adds a recipient in To.
    #[must_use]
    pub fn to(mut self, recipient: &str) -> Self {
        self.detail.summary.to.push(address(recipient));
        self
    }

    /// Adds a recipient in Cc.
    #[must_use]
    pub fn cc(mut self, recipient: &str) -> Self {
        self.detail.cc.push(address(recipient));
        self
    }

    /// Sets the subject.
    #[must_use]
    pub fn subject(mut self, subject: &str) -> Self {
        self.detail.summary.subject = subject.into();
        self
    }

    /// Sets the plain text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.detail.text = Some(text.into());
        self
    }

    /// Sets the HTML body.
    #[must_use]
    pub fn html(mut self, html: &str) -> Self {
        self.detail.html = Some(html.into());
        self
    }

    /// Sets the date.
    #[must_use]
    pub fn date(mut self, date: Timestamp) -> Self {
        self.detail.summary.date = date;
        self
    }

    /// Adds a flag, such as `\Seen`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.detail.summary.flags.push(flag.into());
        self
    }

    /// Sets the Message-ID, with angle brackets.
    #[must_use]
    pub fn message_id(mut self, id: &str) -> Self {
        self.detail.message_id = id.into();
        self
    }

    /// Makes the message a reply to the message with this Message-ID. The Message-ID includes the
    /// angle brackets.
    #[must_use]
    pub fn in_reply_to(mut self, id: &str) -> Self {
        self.detail.in_reply_to = Some(id.into());
        self.detail.references.push(id.into());
        self
    }

    /// Adds an attachment.
    #[must_use]
    pub fn file(mut self, name: &str, content_type: &str, bytes: &[u8]) -> Self {
        self.detail.attachments.push(Attachment {
            index: u32::try_from(self.files.len()).unwrap_or(u32::MAX),
            filename: name.into(),
            content_type: content_type.into(),
            size: bytes.len() as u64,
            content_id: None,
            disposition: "attachment".into(),
        });
        self.files.push(bytes.to_vec());
        self
    }

    /// Returns the copy of a sent message, without its files.
    pub(super) fn sent(draft: &Draft) -> Self {
        let from = draft.from.as_ref();
        let mut letter = Self::from(from.map_or("", |from| &from.address)).flag("\\Seen");
        letter.detail.summary.from = from.cloned().into_iter().collect();
        letter.detail.summary.subject.clone_from(&draft.subject);
        letter.detail.summary.to.clone_from(&draft.to);
        letter.detail.cc.clone_from(&draft.cc);
        letter.detail.reply_to.clone_from(&draft.reply_to);
        letter.detail.in_reply_to.clone_from(&draft.in_reply_to);
        letter.detail.references.clone_from(&draft.references);
        letter.detail.text.clone_from(&draft.text);
        letter.detail.html.clone_from(&draft.html);
        letter
    }

    /// Returns the message in the format of the host, and the content of each attachment.
    pub(super) fn build(self) -> (Detail, Vec<Vec<u8>>) {
        let Self { mut detail, files } = self;
        detail.new_text = new_text(&detail);
        let text = detail.text.as_ref().or(detail.new_text.as_ref());
        let folded: Vec<&str> = text
            .iter()
            .flat_map(|text| text.split_whitespace())
            .collect();
        detail.summary.preview = folded.join(" ").chars().take(256).collect();
        let texts = [detail.text.as_ref(), detail.html.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let files_size: usize = files.iter().map(Vec::len).sum();
        detail.summary.size = (detail.summary.subject.len() + texts + files_size) as u64;
        (detail, files)
    }
}

/// Returns the plain text without quoted lines. If there is no plain text, returns the HTML without
/// its tags.
fn new_text(detail: &Detail) -> Option<String> {
    if let Some(text) = &detail.text {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('>')).collect();
        return Some(lines.join("\n").trim().to_owned());
    }
    let html = detail.html.as_ref()?;
    let after_tags = html.split('<').map(|part| match part.split_once('>') {
        Some((_, text)) => text,
        None => part,
    });
    Some(after_tags.collect::<Vec<_>>().join(" ").trim().to_owned())
}

/// Parses `address` or `Name <address>`.
pub(super) fn address(text: &str) -> Address {
    let parts = text.strip_suffix('>').and_then(|text| text.split_once('<'));
    let (name, address) = parts.unwrap_or(("", text));
    Address {
        name: name.trim().into(),
        address: address.trim().into(),
    }
}
