//! Replies and forwards of the fake host. The fake host knows only English prefixes, writes no
//! dates, and copies HTML without a change.

use std::fmt::Write as _;

use latchmail_shape::codes;

use super::{Account, FakeHost, Need};
use crate::capability::{
    Address, Compose, Detail, Draft, Error, File, FileSource, MessagePart, Original, Scope,
};

/// The prefixes that are removed from subjects.
const PREFIXES: [&str; 3] = ["re:", "fwd:", "fw:"];

impl Compose for FakeHost {
    fn compose(&self, mode: &str, uid: u64, _locale: Option<&str>) -> Result<Draft, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            let is_known = ["reply", "reply-all", "forward", "forward-as-attachment"];
            if !is_known.contains(&mode) {
                return Err(Error::invalid(codes::INVALID_DRAFT, "Invalid mode"));
            }
            let original = account.mail.detail(uid).ok_or(Error::NotFound)?;
            Ok(account.composed(mode, original))
        })
    }
}

impl Account {
    fn is_own(&self, address: &Address) -> bool {
        let is_same = |own: &str| own.eq_ignore_ascii_case(&address.address);
        is_same(&self.address) || self.aliases.iter().any(|alias| is_same(&alias.address))
    }

    fn composed(&self, mode: &str, original: &Detail) -> Draft {
        let is_reply = mode.starts_with("reply");
        let uid = original.summary.uid;
        let (to, cc) = if is_reply {
            self.recipients(original, mode == "reply-all")
        } else {
            (Vec::new(), Vec::new())
        };
        let id = Some(original.message_id.clone()).filter(|id| !id.is_empty());
        let mut references = original.references.clone();
        if references.is_empty() {
            references.extend(original.in_reply_to.clone());
        }
        references.extend(id.clone());
        let prefix = if is_reply { "Re:" } else { "Fwd:" };
        let subject = format!("{prefix} {}", base_subject(&original.summary.subject));
        let (text, html) = match mode {
            "forward-as-attachment" => (None, None),
            _ => (Some(quoted(original, is_reply)), quoted_html(original)),
        };
        let file = |source| File {
            source,
            filename: None,
            content_type: None,
            content_id: None,
            inline: false,
        };
        let files = match mode {
            "forward" => (0..)
                .zip(&original.attachments)
                .map(|(index, _)| file(FileSource::Part(MessagePart { uid, index })))
                .collect(),
            "forward-as-attachment" => vec![file(FileSource::Message(uid))],
            _ => Vec::new(),
        };
        Draft {
            from: Some(self.sender(original)),
            to,
            cc,
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: subject.trim_end().into(),
            text,
            html,
            in_reply_to: id.filter(|_| is_reply),
            references,
            headers: Vec::new(),
            files,
            original: Some(Original {
                uid,
                relation: if is_reply { "reply" } else { "forward" }.into(),
            }),
        }
    }

    /// Returns the recipients of a reply, without addresses of the account.
    fn recipients(&self, original: &Detail, all: bool) -> (Vec<Address>, Vec<Address>) {
        let from = match original.reply_to.as_slice() {
            [] => &original.summary.from,
            _ => &original.reply_to,
        };
        let is_own = from.iter().all(|one| self.is_own(one));
        let mut to: Vec<Address> = Vec::new();
        let mut cc: Vec<Address> = Vec::new();
        let add = |list: &mut Vec<Address>, known: &[Address], others: &[Address]| {
            for one in others.iter().filter(|one| !self.is_own(one)) {
                let mut all = list.iter().chain(known);
                if !all.any(|known| known.address.eq_ignore_ascii_case(&one.address)) {
                    list.push(one.clone());
                }
            }
        };
        add(
            &mut to,
            &[],
            if is_own { &original.summary.to } else { from },
        );
        if all {
            add(&mut to, &[], &original.summary.to);
            add(&mut cc, &to, &original.cc);
        }
        if to.is_empty() {
            to.clone_from(if cc.is_empty() { from } else { &cc });
            cc.clear();
        }
        (to, cc)
    }

    /// Returns the active alias that received the message, or the account's own address.
    fn sender(&self, original: &Detail) -> Address {
        let received = original.summary.to.iter().chain(&original.cc);
        let mut received = received.map(|one| one.address.as_str());
        let alias = received.find(|address| {
            let is_same = |own: &str| own.eq_ignore_ascii_case(address);
            let mut aliases = self.aliases.iter();
            is_same(&self.address) || aliases.any(|one| one.active && is_same(&one.address))
        });
        Address {
            name: String::new(),
            address: alias.unwrap_or(&self.address).into(),
        }
    }
}

fn base_subject(subject: &str) -> &str {
    let mut base = subject.trim();
    while let Some(prefix) = PREFIXES.iter().find(|prefix| {
        let start = base.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    }) {
        base = base[prefix.len()..].trim_start();
    }
    base
}

/// Returns the author and the text. The lines of a reply begin with `>`.
fn quoted(original: &Detail, is_reply: bool) -> String {
    let author = original.summary.from.first();
    let author = author.map_or("", |author| author.address.as_str());
    let mut quoted = if is_reply {
        format!("{author} wrote:\n")
    } else {
        format!("---------- Forwarded message ----------\nFrom: {author}\n\n")
    };
    for line in original.text.as_deref().unwrap_or_default().lines() {
        let prefix = match line {
            _ if !is_reply => "",
            "" => ">",
            line if line.starts_with('>') => ">",
            _ => "> ",
        };
        let _ = writeln!(quoted, "{prefix}{line}");
    }
    quoted
}

fn quoted_html(original: &Detail) -> Option<String> {
    let html = original.html.as_ref()?;
    Some(format!("<blockquote type=\"cite\">{html}</blockquote>"))
}
