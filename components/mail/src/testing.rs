//! A fake host for unit tests. It returns the configured results and records its calls.

use std::cell::RefCell;

use latchmail_sdk::capability::{
    Address, Attachment, Authentication, Blob, Caller, Detail, Draft, Error, FlagAction, Folder,
    Identity, Kind, Listing, Mailbox, Outbox, Page, Role, Sent, Summary, Verdict,
};
use latchmail_sdk::{Content, Failure, Reply, Request};

pub(crate) struct FakeHost {
    pub(crate) kind: Kind,
    pub(crate) folders: Result<Vec<Folder>, Error>,
    pub(crate) listing: Result<Listing, Error>,
    pub(crate) detail: Result<Detail, Error>,
    pub(crate) attachment: Result<Option<Attachment>, Error>,
    pub(crate) changed: Result<Vec<u64>, Error>,
    pub(crate) sender: Result<(), Error>,
    pub(crate) sent: Result<Sent, Error>,
    pub(crate) asked: RefCell<Vec<String>>,
    pub(crate) drafts: RefCell<Vec<(Draft, Option<String>)>>,
}

impl Default for FakeHost {
    fn default() -> Self {
        Self {
            kind: Kind::Session,
            folders: Err(Error::Internal),
            listing: Err(Error::Internal),
            detail: Err(Error::Internal),
            attachment: Err(Error::Internal),
            changed: Err(Error::Internal),
            sender: Ok(()),
            sent: Err(Error::Internal),
            asked: RefCell::default(),
            drafts: RefCell::default(),
        }
    }
}

impl Caller for FakeHost {
    fn current(&self) -> Identity {
        Identity {
            kind: self.kind,
            address: "ada@example.test".into(),
            admin: false,
            scopes: Vec::new(),
        }
    }
}

impl Mailbox for FakeHost {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        self.folders.clone()
    }

    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        let asked = format!("{folder} {}+{}", page.offset, page.limit);
        self.asked.borrow_mut().push(asked);
        self.listing.clone()
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        self.asked.borrow_mut().push(uid.to_string());
        self.detail.clone()
    }

    fn get_attachment(
        &self,
        uid: u64,
        index: u32,
    ) -> Result<Option<(Attachment, Authentication, Blob)>, Error> {
        let asked = format!("{uid} {index}");
        self.asked.borrow_mut().push(asked);
        let attachment = self.attachment.clone()?;
        Ok(attachment.map(|attachment| (attachment, Blob::Bytes(b"PDF".to_vec()))))
    }

    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error> {
        let asked = format!("{folder} {term} {}+{}", page.offset, page.limit);
        self.asked.borrow_mut().push(asked);
        self.listing.clone()
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error> {
        let action = match action {
            FlagAction::Add => "Add",
            FlagAction::Remove => "Remove",
        };
        let asked = format!("flag {uids:?} {flags:?} {action}");
        self.asked.borrow_mut().push(asked);
        self.changed.clone()
    }

    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        let asked = format!("move {uids:?} {destination}");
        self.asked.borrow_mut().push(asked);
        self.changed.clone()
    }

    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        self.asked.borrow_mut().push(format!("delete {uids:?}"));
        self.changed.clone()
    }
}

impl Outbox for FakeHost {
    fn check_sender(&self, _: &str) -> Result<(), Error> {
        self.sender.clone()
    }

    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        let key = key.map(ToOwned::to_owned);
        self.drafts.borrow_mut().push((draft, key));
        self.sent.clone()
    }
}

pub(crate) fn json(answer: Result<Reply, Failure>) -> serde_json::Value {
    serde_json::from_slice(&body(answer.unwrap())).unwrap()
}

pub(crate) fn body(reply: Reply) -> Vec<u8> {
    match reply.body {
        Content::Bytes(bytes) | Content::Blob(Blob::Bytes(bytes)) => bytes,
        Content::Blob(Blob::Host(_)) => panic!("there is no host"),
    }
}

pub(crate) fn asked(path: &[(&str, &str)], query: &[(&str, &str)]) -> Request {
    let pairs = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect()
    };
    Request {
        path: pairs(path),
        query: pairs(query),
        ..Request::default()
    }
}

pub(crate) fn posted(path: &[(&str, &str)], body: &str) -> Request {
    Request {
        body: body.into(),
        ..asked(path, &[])
    }
}

pub(crate) fn folder(path: &str, role: Option<Role>) -> Folder {
    Folder {
        id: format!("id of {path}"),
        path: path.into(),
        name: path.into(),
        delimiter: "/".into(),
        messages: 2,
        unseen: 1,
        role,
    }
}

pub(crate) fn summary(uid: u64) -> Summary {
    Summary {
        uid,
        seq: 1,
        from: vec![Address {
            name: "Ada".into(),
            address: "ada@example.test".into(),
        }],
        to: Vec::new(),
        subject: "Hello".into(),
        date: 1_795_161_600_000,
        flags: vec!["\\Seen".into()],
        size: 120,
        preview: "Hello".into(),
    }
}

pub(crate) fn detail(uid: u64) -> Detail {
    Detail {
        summary: summary(uid),
        cc: Vec::new(),
        reply_to: Vec::new(),
        message_id: "<a@b>".into(),
        in_reply_to: None,
        references: Vec::new(),
        text: Some("Hello".into()),
        html: None,
        attachments: vec![attachment()],
        truncated: false,
        authentication: Authentication {
            verdict: Verdict::None,
            domain: None,
        },
    }
}

pub(crate) fn attachment() -> Attachment {
    Attachment {
        index: 0,
        filename: "a.pdf".into(),
        content_type: "application/pdf".into(),
        size: 3,
    }
}
