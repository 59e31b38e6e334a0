//! A message for a mailbox, as a test describes it.

use super::NOW;
use crate::capability::{Address, Attachment, Detail, Summary, Timestamp};

/// A message to be delivered: [`FakeHost::deliver`](super::FakeHost::deliver).
#[derive(Clone, Debug)]
pub struct Letter {
    detail: Detail,
    files: Vec<Vec<u8>>,
}

impl Letter {
    /// One from `address` or `Name <address>`, unread, without a subject or a text.
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
                },
                cc: Vec::new(),
                reply_to: Vec::new(),
                message_id: String::new(),
                in_reply_to: None,
                references: Vec::new(),
                text: None,
                html: None,
                attachments: Vec::new(),
                truncated: false,
            },
            files: Vec::new(),
        }
    }

    /// To one more.
    #[must_use]
    pub fn to(mut self, recipient: &str) -> Self {
        self.detail.summary.to.push(address(recipient));
        self
    }

    /// With a copy to one more.
    #[must_use]
    pub fn cc(mut self, recipient: &str) -> Self {
        self.detail.cc.push(address(recipient));
        self
    }

    /// With a subject.
    #[must_use]
    pub fn subject(mut self, subject: &str) -> Self {
        self.detail.summary.subject = subject.into();
        self
    }

    /// With a plain text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.detail.text = Some(text.into());
        self
    }

    /// With an HTML text.
    #[must_use]
    pub fn html(mut self, html: &str) -> Self {
        self.detail.html = Some(html.into());
        self
    }

    /// Written at this time.
    #[must_use]
    pub fn date(mut self, date: Timestamp) -> Self {
        self.detail.summary.date = date;
        self
    }

    /// With a flag, as `\Seen`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.detail.summary.flags.push(flag.into());
        self
    }

    /// With a Message-ID, angle brackets included.
    #[must_use]
    pub fn message_id(mut self, id: &str) -> Self {
        self.detail.message_id = id.into();
        self
    }

    /// In answer to a Message-ID, angle brackets included.
    #[must_use]
    pub fn in_reply_to(mut self, id: &str) -> Self {
        self.detail.in_reply_to = Some(id.into());
        self.detail.references.push(id.into());
        self
    }

    /// With a file.
    #[must_use]
    pub fn file(mut self, name: &str, content_type: &str, bytes: &[u8]) -> Self {
        self.detail.attachments.push(Attachment {
            index: u32::try_from(self.files.len()).unwrap_or(u32::MAX),
            filename: name.into(),
            content_type: content_type.into(),
            size: bytes.len() as u64,
        });
        self.files.push(bytes.to_vec());
        self
    }

    /// What the host says of it, and its files.
    pub(super) fn whole(self) -> (Detail, Vec<Vec<u8>>) {
        let Self { mut detail, files } = self;
        let text = detail.text.as_deref().unwrap_or_default();
        let folded: Vec<&str> = text.split_whitespace().collect();
        detail.summary.preview = folded.join(" ").chars().take(256).collect();
        let texts = [detail.text.as_ref(), detail.html.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let files_size: usize = files.iter().map(Vec::len).sum();
        detail.summary.size = (detail.summary.subject.len() + texts + files_size) as u64;
        (detail, files)
    }
}

/// `address`, or `Name <address>`.
pub(super) fn address(text: &str) -> Address {
    let parts = text.strip_suffix('>').and_then(|text| text.split_once('<'));
    let (name, address) = parts.unwrap_or(("", text));
    Address {
        name: name.trim().into(),
        address: address.trim().into(),
    }
}
