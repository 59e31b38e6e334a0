//! The drafts of the fake host: messages in the folder with the role `\Drafts`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use latchmail_shape::{check_header_field, codes};

use super::mailbox::{check_page, paged};
use super::{Account, FakeHost, Need, SentFile};
use crate::capability::{
    Address, Blob, Caller as _, Detail, Draft, DraftError, DraftPage, Drafts, Error, File,
    FileSource, Header, HeaderField, MessagePart, Outbox as _, Page, Scope, SendError, SendOptions,
    Sent, StoredDraft, Submission,
};
use crate::testing::letter::Letter;

const FOLDER: &str = "Drafts";
/// Maximum number of recipients of a message.
const MAX_RECIPIENTS: usize = 50;

/// The values of a draft that [`Detail`] does not contain.
#[derive(Debug)]
pub(super) struct DraftValues {
    uid: u64,
    id: String,
    draft: Draft,
}

impl Account {
    /// Returns the ids of all drafts and the numbers of their messages, newest first. If several
    /// messages have the same id, only the newest one is a draft.
    fn drafts(&self) -> Vec<(String, u64)> {
        let mut drafts: Vec<(String, u64)> = Vec::new();
        let stored: Vec<_> = self.mail.of(FOLDER).collect();
        for (summary, _) in stored.into_iter().rev() {
            let id = self.draft_id(summary.uid);
            if !drafts.iter().any(|(known, _)| *known == id) {
                drafts.push((id, summary.uid));
            }
        }
        drafts
    }

    fn find_draft(&self, id: &str) -> Result<u64, Error> {
        let drafts = self.drafts();
        let found = drafts.into_iter().find(|(known, _)| known == id);
        found.map(|(_, uid)| uid).ok_or(Error::NotFound)
    }

    fn require_version(&self, id: &str, if_version: Option<&str>) -> Result<u64, DraftError> {
        let uid = self.find_draft(id)?;
        if if_version.is_none_or(|expected| expected == version(uid)) {
            return Ok(uid);
        }
        Err(DraftError::VersionMismatch)
    }

    fn stored_draft(&self, id: &str, uid: u64) -> Result<StoredDraft, Error> {
        let detail: &Detail = self.mail.detail(uid).ok_or(Error::NotFound)?;
        let values = self.draft_values.iter().find(|one| one.uid == uid);
        let draft = values.map(|one| &one.draft);
        let blob = |text: &Option<String>| {
            let text = text.clone().filter(|text| !text.is_empty());
            text.map(|text| Blob::Bytes(text.into_bytes()))
        };
        let headers = draft.into_iter().flat_map(|draft| &draft.headers);
        Ok(StoredDraft {
            id: id.into(),
            version: version(uid),
            uid,
            from: detail.summary.from.clone(),
            to: detail.summary.to.clone(),
            cc: detail.cc.clone(),
            bcc: draft.map(|draft| draft.bcc.clone()).unwrap_or_default(),
            reply_to: detail.reply_to.clone(),
            subject: detail.summary.subject.clone(),
            text: blob(&detail.text),
            html: blob(&detail.html),
            in_reply_to: detail.in_reply_to.clone(),
            references: detail.references.clone(),
            headers: headers
                .map(|header| HeaderField {
                    name: header.name.clone(),
                    value: header.value.clone(),
                })
                .collect(),
            attachments: detail.attachments.clone(),
            truncated: false,
        })
    }

    /// Stores the message of a draft. Returns its number.
    fn store_draft(
        &mut self,
        draft: Draft,
        files: &[SentFile],
        id: Option<(String, String)>,
    ) -> (String, u64) {
        let letter = Letter::sent(&draft).flag("\\Draft");
        let letter = files.iter().fold(letter, |letter, file| {
            letter.file(&file.filename, &file.content_type, &file.content)
        });
        let letter = match &id {
            Some((_, message_id)) => letter.message_id(message_id),
            None => letter,
        };
        let uid = self.mail.put(FOLDER, letter);
        let message_id = self.mail.detail(uid).map(|detail| &detail.message_id);
        let id = match id {
            Some((id, _)) => id,
            None => id_of(message_id.map_or("", |id| id)),
        };
        self.draft_values.push(DraftValues {
            uid,
            id: id.clone(),
            draft,
        });
        (id, uid)
    }

    fn remove_draft(&mut self, id: &str) {
        let all: Vec<u64> = self
            .mail
            .of(FOLDER)
            .map(|(summary, _)| summary.uid)
            .collect();
        let uids: Vec<u64> = all
            .into_iter()
            .filter(|uid| self.draft_id(*uid) == id)
            .collect();
        self.mail.delete(&uids);
        self.draft_values.retain(|one| !uids.contains(&one.uid));
    }

    fn draft_id(&self, uid: u64) -> String {
        let known = self.draft_values.iter().find(|one| one.uid == uid);
        let message_id = self
            .mail
            .detail(uid)
            .map(|detail| detail.message_id.as_str());
        known.map_or_else(
            || id_of(message_id.unwrap_or_default()),
            |one| one.id.clone(),
        )
    }
}

/// Returns the files of a draft with their bytes, after the checks of its values.
fn draft_files(host: &FakeHost, draft: &Draft) -> Result<Vec<SentFile>, DraftError> {
    let lists = [&draft.to, &draft.cc, &draft.bcc, &draft.reply_to];
    let mut texts = lists.into_iter().flatten().chain(&draft.from);
    let is_line = |text: &str| !text.chars().any(char::is_control);
    if !texts.all(|one| is_line(&one.name) && is_line(&one.address)) || !is_line(&draft.subject) {
        let text = "Invalid character in an address, a Message-ID or the subject";
        return Err(Error::invalid(codes::INVALID_DRAFT, text).into());
    }
    let mut headers = draft.headers.iter();
    if !headers.all(|header| check_header_field(&header.name, &header.value).is_ok()) {
        return Err(Error::invalid(codes::INVALID_DRAFT, "Invalid header field").into());
    }
    let (now, can_read) = (host.now(), host.current().holds(Scope::MailRead));
    let files = host.allow(Need::Scope(Scope::MailWrite), |account| {
        Ok(account.files_of(draft, now, can_read))
    })?;
    files.map_err(|error| match error {
        SendError::FileNotFound(index) => DraftError::FileNotFound(index),
        SendError::Failed(error) => error.into(),
    })
}

impl Drafts for FakeHost {
    fn create_draft(&self, draft: Draft) -> Result<StoredDraft, DraftError> {
        let files = draft_files(self, &draft)?;
        let created = self.allow(Need::Scope(Scope::MailWrite), |account| {
            let (id, uid) = account.store_draft(draft, &files, None);
            account.stored_draft(&id, uid)
        });
        Ok(created?)
    }

    fn get_draft(&self, id: &str) -> Result<StoredDraft, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            account.stored_draft(id, account.find_draft(id)?)
        })
    }

    fn list_drafts(&self, page: Page) -> Result<DraftPage, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            check_page(page)?;
            let (listed, total) = paged(account.drafts(), page);
            let drafts = listed.iter();
            let drafts = drafts.map(|(id, uid)| account.stored_draft(id, *uid));
            Ok(DraftPage {
                drafts: drafts.collect::<Result<_, _>>()?,
                total,
            })
        })
    }

    fn replace_draft(
        &self,
        id: &str,
        draft: Draft,
        if_version: Option<&str>,
    ) -> Result<StoredDraft, DraftError> {
        let need = Need::Scope(Scope::MailWrite);
        let check = |account: &mut Account| Ok(account.require_version(id, if_version));
        let uid = self.allow(need, check)??;
        let files = draft_files(self, &draft)?;
        let replaced = self.allow(need, |account| {
            let old = account.mail.detail(uid).ok_or(Error::NotFound)?;
            let message_id = old.message_id.clone();
            account.remove_draft(id);
            let (id, uid) = account.store_draft(draft, &files, Some((id.into(), message_id)));
            account.stored_draft(&id, uid)
        });
        Ok(replaced?)
    }

    fn delete_draft(&self, id: &str, if_version: Option<&str>) -> Result<(), DraftError> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            let checked = account.require_version(id, if_version);
            if checked.is_ok() {
                account.remove_draft(id);
            }
            Ok(checked.map(drop))
        })?
    }

    fn send_draft(
        &self,
        id: &str,
        if_version: Option<&str>,
        options: &SendOptions,
    ) -> Result<Sent, DraftError> {
        let key = options.key.as_deref();
        self.authorize(Need::Scope(Scope::MailRead))?;
        let need = Need::Scope(Scope::MailSend);
        let earlier = self.allow(need, |account| {
            let mut earlier = account.sent.iter();
            let earlier = earlier.find(|(one, _)| key.is_some() && one.key.as_deref() == key);
            Ok(earlier.map(|(_, sent)| Sent {
                replayed: true,
                ..sent.clone()
            }))
        })?;
        if let Some(earlier) = earlier {
            return Ok(earlier);
        }
        let draft = self.allow(need, |account| {
            Ok(account
                .require_version(id, if_version)
                .and_then(|uid| Ok(account.stored_draft(id, uid)?)))
        })??;
        let draft = finished(draft)?;
        let sent = self.send(draft, options).map_err(|error| match error {
            SendError::FileNotFound(index) => DraftError::FileNotFound(index),
            SendError::Failed(error) => DraftError::Failed(error),
        })?;
        self.with_account(|account| account.remove_draft(id));
        Ok(sent)
    }

    fn submit_message(&self, submission: &Submission) -> Result<Sent, DraftError> {
        let now = self.now();
        self.authorize(Need::Scope(Scope::MailRead))?;
        self.allow(Need::Scope(Scope::MailSend), |account| {
            Ok(account.submit(submission, now))
        })?
    }
}

/// Returns the draft as a message to send. Fails with the name of a missing or invalid field.
fn finished(stored: StoredDraft) -> Result<Draft, DraftError> {
    let is_valid = |one: &Address| {
        let parts = one.address.rsplit_once('@');
        parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
    };
    let unfinished = |field: &str| Err(DraftError::Unfinished(field.into()));
    for (field, list) in [
        ("from", &stored.from),
        ("to", &stored.to),
        ("cc", &stored.cc),
        ("bcc", &stored.bcc),
        ("reply-to", &stored.reply_to),
    ] {
        let is_missing = list.is_empty() && matches!(field, "from" | "to");
        if is_missing || !list.iter().all(is_valid) {
            return unfinished(field);
        }
    }
    if stored.to.len() + stored.cc.len() + stored.bcc.len() > MAX_RECIPIENTS {
        return unfinished("recipients");
    }
    let text = |blob: Option<Blob>| {
        blob.map(|blob| String::from_utf8_lossy(blob.in_memory().unwrap_or_default()).into_owned())
    };
    let part = |index: u32| {
        FileSource::Part(MessagePart {
            uid: stored.uid,
            index,
        })
    };
    Ok(Draft {
        from: stored.from.first().cloned(),
        to: stored.to,
        cc: stored.cc,
        bcc: stored.bcc,
        reply_to: stored.reply_to,
        subject: stored.subject,
        text: text(stored.text),
        html: text(stored.html),
        in_reply_to: stored.in_reply_to,
        references: stored.references,
        headers: stored
            .headers
            .into_iter()
            .map(|header| Header {
                name: header.name,
                value: header.value,
            })
            .collect(),
        files: stored
            .attachments
            .iter()
            .map(|attachment| File {
                source: part(attachment.index),
                filename: None,
                content_type: None,
                content_id: attachment.content_id.clone(),
                inline: attachment.disposition == "inline",
            })
            .collect(),
        original: None,
    })
}

/// Returns the version of a draft whose message has this number.
fn version(uid: u64) -> String {
    format!("content{uid}")
}

/// Returns the id of the draft with this Message-ID.
fn id_of(message_id: &str) -> String {
    let hash = |salt: u8| {
        let mut hash = DefaultHasher::new();
        (salt, message_id).hash(&mut hash);
        hash.finish()
    };
    format!("{:016x}{:016x}", hash(0), hash(1))
}
