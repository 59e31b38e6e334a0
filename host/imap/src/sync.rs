//! Reads what has changed in a folder since an earlier state: the flags of new and changed
//! messages, and the UIDs of expunged messages (RFC 7162).

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use imap_proto::{AttributeValue, Response, Status};
use latchmail_core::message_number::Uid;

use super::Error;
use super::bounds;
use super::connection::LITERAL_TIMEOUT_FACTOR;
use super::fetch;
use super::open::OpenMode;
use super::selected::Opened;
use super::session::{SelectedFolder, Session};
use super::state::{Idle, State};

/// The changes of a folder.
#[derive(Debug, Default)]
pub struct FolderChanges {
    /// The state of the folder when it was opened. If the UIDVALIDITY is not the requested one,
    /// `flags` is empty and `vanished` is `None`.
    pub opened: Opened,
    /// The HIGHESTMODSEQ of the folder when it was opened. `None` if the server does not report
    /// HIGHESTMODSEQ.
    pub highest_modseq: Option<u64>,
    /// The UIDs and the flags of the messages, in any order. The flags are in the form of
    /// [`canonical_flags`].
    pub flags: Vec<(Uid, Arc<str>)>,
    /// The UIDs of expunged messages. `None` if `flags` contains all messages of the folder.
    pub vanished: Option<Vec<RangeInclusive<Uid>>>,
}

/// Maximum number of ranges of expunged messages. If the server reports more ranges, the client
/// reads the flags of all messages instead.
const MAX_VANISHED: usize = 100_000;

/// Returns the flags in ascending order, separated by spaces, without `\Recent` and duplicates.
/// Flags that differ only in case are equal. Omits the last flags if the flags together exceed the
/// size limit.
#[must_use]
pub fn canonical_flags<'f>(flags: impl Iterator<Item = &'f str>) -> String {
    let mut flags: Vec<&str> = flags
        .filter(|flag| !flag.eq_ignore_ascii_case("\\Recent"))
        .collect();
    flags.sort_unstable_by(|a, b| {
        let lower = |flag: &'f str| flag.bytes().map(|byte| byte.to_ascii_lowercase());
        lower(a).cmp(lower(b)).then(a.cmp(b))
    });
    flags.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    let mut text = String::new();
    for flag in flags {
        if text.len() + flag.len() + latchmail_mime::bounds::ENTRY > bounds::FLAGS {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(flag);
    }
    text
}

/// A collector of the replies to FETCH.
#[derive(Default)]
struct Collected {
    known: HashSet<Arc<str>>,
    flags: Vec<(Uid, Arc<str>)>,
    vanished: Vec<RangeInclusive<Uid>>,
}

impl Collected {
    fn add(&mut self, reply: &Response<'_>) {
        match reply {
            Response::Fetch(_, attributes) => {
                let uid = attributes.iter().find_map(|attribute| match attribute {
                    AttributeValue::Uid(uid) => Some(Uid(*uid)),
                    _ => None,
                });
                let flags = attributes.iter().find_map(|attribute| match attribute {
                    AttributeValue::Flags(flags) => Some(flags),
                    _ => None,
                });
                if let (Some(uid), Some(flags)) = (uid, flags) {
                    let flags = canonical_flags(flags.iter().map(AsRef::as_ref));
                    let flags = self.intern(flags);
                    self.flags.push((uid, flags));
                }
            }
            Response::Vanished { uids, .. } if self.vanished.len() <= MAX_VANISHED => {
                let ranges = uids
                    .iter()
                    .map(|uids| Uid(*uids.start())..=Uid(*uids.end()));
                self.vanished.extend(ranges);
            }
            _ => {}
        }
    }

    /// Returns the text `flags` with shared ownership. Equal texts share one allocation.
    fn intern(&mut self, flags: String) -> Arc<str> {
        if let Some(known) = self.known.get(flags.as_str()) {
            return Arc::clone(known);
        }
        let new: Arc<str> = flags.into();
        self.known.insert(Arc::clone(&new));
        new
    }
}

impl Session {
    /// Returns the changes of the folder `path` after the HIGHESTMODSEQ `since`. Reads all flags if
    /// `since` is `None`, if the server has no QRESYNC, or if the folder's HIGHESTMODSEQ is smaller
    /// than `since`. Returns `None` if the folder does not exist.
    ///
    /// A message can be in `flags` more than once. The last entry contains the newest flags.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn flags_since(
        &mut self,
        path: &str,
        uid_validity: u32,
        since: Option<u64>,
    ) -> Result<Option<FolderChanges>, Error> {
        let since = since.filter(|since| *since > 0);
        let qresync = since.is_some() && enable_qresync(self).await?;
        let Some(opening) = self.open_path(OpenMode::Examine, path, None).await? else {
            return Ok(None);
        };
        let highest_modseq = opening.highest_modseq;
        let mut changes = FolderChanges {
            opened: opening.opened,
            highest_modseq,
            ..FolderChanges::default()
        };
        if opening.opened.uid_validity != uid_validity {
            return Ok(Some(changes));
        }
        let since =
            since.filter(|since| qresync && highest_modseq.is_some_and(|now| now >= *since));
        let mut collected = Collected::default();
        if since.is_some() || opening.opened.exists > 0 {
            collected = self.selected_folder()?.collect_flags(since).await?;
        }
        changes.vanished = since.map(|_| std::mem::take(&mut collected.vanished));
        if changes
            .vanished
            .as_ref()
            .is_some_and(|vanished| vanished.len() > MAX_VANISHED)
        {
            collected = self.selected_folder()?.collect_flags(None).await?;
            changes.vanished = None;
        }
        changes.flags = collected.flags;
        Ok(Some(changes))
    }
}

impl SelectedFolder<'_> {
    /// Reads the flags of the messages in the open folder that have changed since the HIGHESTMODSEQ
    /// `since`, or of all messages if `since` is `None`. A message that is expunged during the
    /// command can be missing from the result.
    async fn collect_flags(&mut self, since: Option<u64>) -> Result<Collected, Error> {
        let (mut wire, selected) = self.session.connection.take_selected()?;
        let exchange = async move {
            let mut collected = Collected::default();
            let tag = wire.queue(&fetch::all_flags(since));
            let outcome = wire
                .finish_one(tag, &mut |reply, _| {
                    collected.add(reply);
                    Ok(())
                })
                .await?;
            let selected = Some(selected);
            Ok((State::Idle(Idle { wire, selected }), (outcome, collected)))
        };
        let limit = self.session.connection.timeout * LITERAL_TIMEOUT_FACTOR;
        let (outcome, collected) = self.session.connection.exchange(limit, exchange).await?;
        match outcome.status {
            Status::Ok => Ok(collected),
            // Another client expunged messages during the command (RFC 5530).
            Status::No if outcome.has_code("EXPUNGEISSUED") => Ok(collected),
            // The server could not return some of the messages. Therefore the result is not
            // complete.
            Status::No => Err(Error::Unavailable(
                "the mail server did not return the flags of all messages".into(),
            )),
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }
}

/// Enables QRESYNC once per session. Returns `false` if the server has no QRESYNC.
async fn enable_qresync(session: &mut Session) -> Result<bool, Error> {
    if session.qresync_enabled || !session.connection.capabilities.qresync {
        return Ok(session.qresync_enabled);
    }
    // ENABLE is valid only if no folder is open (RFC 5161, section 3.1).
    let mut commands = session.closing();
    commands.push("ENABLE QRESYNC".to_owned());
    let mut enabled = false;
    session
        .connection
        .run(&commands, &mut |reply, _| {
            if let Response::Capabilities(named) = reply {
                enabled |= super::capabilities::Capabilities::of(named).qresync;
            }
            Ok(())
        })
        .await?;
    session.qresync_enabled = enabled;
    session.connection.capabilities.qresync = enabled;
    Ok(enabled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{block_on, session};

    const EXAMINE: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 1] ok\r\n* OK [HIGHESTMODSEQ 9] ok\r\n";
    const ENABLED: &str = "* ENABLED QRESYNC\r\n";
    const FETCH: &str = "* VANISHED (EARLIER) 3:5,9\r\n\
        * 1 FETCH (UID 1 FLAGS (\\Seen \\Recent) MODSEQ (8))\r\n* 2 FETCH (UID 2 FLAGS (b A a) MODSEQ (9))\r\n";

    fn changes(qresync: bool, replies: &[&str], since: Option<u64>) -> FolderChanges {
        let mut session = session(replies);
        session.connection.capabilities.qresync = qresync;
        let changes = block_on(session.flags_since("a", 1, since));
        changes.unwrap().unwrap()
    }

    fn flags(changes: &FolderChanges) -> Vec<(u32, &str)> {
        changes
            .flags
            .iter()
            .map(|(uid, flags)| (uid.0, &**flags))
            .collect()
    }

    #[test]
    fn changes_since_a_state_include_expunged_messages() {
        let changes = changes(true, &[ENABLED, EXAMINE, FETCH], Some(7));
        assert_eq!(flags(&changes), [(1, "\\Seen"), (2, "A b")]);
        assert_eq!(
            changes.vanished,
            Some(vec![Uid(3)..=Uid(5), Uid(9)..=Uid(9)])
        );
        assert_eq!(changes.highest_modseq, Some(9));
    }

    #[test]
    fn all_flags_are_read_if_the_server_does_not_know_the_state() {
        let without = changes(false, &[EXAMINE, FETCH], Some(7));
        let not_enabled = changes(true, &["", EXAMINE, FETCH], Some(7));
        let backwards = changes(true, &[ENABLED, EXAMINE, FETCH], Some(10));
        let first = changes(true, &[EXAMINE, FETCH], None);
        for changes in [without, not_enabled, backwards, first] {
            assert_eq!((changes.flags.len(), changes.vanished), (2, None));
        }
    }

    #[test]
    fn flags_of_another_uidvalidity_are_not_returned() {
        let other = "* 3 EXISTS\r\n* OK [UIDVALIDITY 2] ok\r\n";
        let changes = changes(false, &[other], None);
        assert_eq!((changes.opened.uid_validity, changes.flags.len()), (2, 0));
    }

    #[test]
    fn a_failed_fetch_is_not_a_complete_result() {
        let mut refused = session(&[EXAMINE, "! NO [SERVERBUG] some failed\r\n"]);
        assert!(block_on(refused.flags_since("a", 1, None)).is_err());
        let mut expunged = session(&[EXAMINE, "! NO [EXPUNGEISSUED] gone\r\n"]);
        assert!(block_on(expunged.flags_since("a", 1, None)).is_ok());
    }
}
