//! A connection that is logged in. It remembers the folder that it has open, and a failed or abandoned command consumes it: the
//! wire is taken out for every command and put back only when all of its answers were read.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use imap_proto::{AttributeValue, MailboxDatum, Response, ResponseCode, Status};
use tokio::time::timeout;

use super::Error;
use super::capabilities::Capabilities;
use super::change::Writable;
use super::command::Command;
use super::fetch::{self, Collected, Fetched};
use super::list::{self, Listed};
use super::wire::{Frame, Next, On, Outcome, SMALL, Sent, Wire, parse};
use crate::mail::bounds;
use crate::mail::pool;

/// What has a literal may take so many times as long as others: a search looks into every message, a message has 25 MB.
const LONG: u32 = 4;

/// A connection that is logged in.
#[derive(Debug)]
pub(in crate::mail) struct Session {
    wire: Option<Wire>,
    pub(super) capabilities: Capabilities,
    timeout: Duration,
    /// What is taken as it comes; the wire is with it then.
    literal: Option<Literal>,
    /// The folder opened last, by its name on the wire, and how many messages it held.
    last: Option<(String, u32)>,
    /// A folder that has so many recent messages that opening it is slow.
    recent: Option<String>,
    /// The folder that is open, or may be, as commands name it.
    open: Option<String>,
    /// INBOX as it was when it was opened for writing, while it is the folder that is open.
    pub(super) inbox: Option<Writable>,
}

/// Bytes of a message on their way.
#[derive(Debug)]
struct Literal {
    wire: Wire,
    tag: String,
    left: usize,
}

/// A folder as it is at this moment (RFC 3501, section 6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::mail) struct Opened {
    /// How many messages it holds.
    pub(in crate::mail) exists: u32,
    /// Under which its UIDs hold.
    pub(in crate::mail) uid_validity: u32,
    /// The least UID that the next message may get; 0 where the server does not say.
    pub(in crate::mail) uid_next: u32,
}

/// How a folder is opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Open {
    /// To be read.
    Examine,
    /// To be changed.
    Select,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Examine => "EXAMINE",
            Self::Select => "SELECT",
        })
    }
}

/// What came of opening a folder, and of the command that was sent along.
#[derive(Debug, Default)]
pub(super) struct Opening {
    pub(super) opened: Opened,
    /// The flags that are kept there (RFC 3501, section 7.1, PERMANENTFLAGS); none where the server does not say.
    pub(super) permanent: Option<Vec<String>>,
    /// How many messages no session that may write has seen (RFC 3501, section 2.3.2).
    recent: u32,
    /// The answer NO to opening it.
    pub(super) refused: Option<Outcome>,
    /// How the command ended.
    pub(super) outcome: Option<Outcome>,
    /// What it fetched.
    pub(super) collected: Collected,
    /// The UIDs that it found, in the server's order.
    pub(super) searched: Vec<u32>,
}

impl Opening {
    fn see(&mut self, reply: &Response<'_>, frame: &Frame) {
        match reply {
            // The first count is the folder's; a later one is of messages that arrived meanwhile.
            Response::MailboxData(MailboxDatum::Exists(n)) if !self.collected.begun() => {
                self.opened.exists = *n;
            }
            Response::MailboxData(MailboxDatum::Recent(n)) => self.recent = *n,
            Response::MailboxData(MailboxDatum::Search(uids)) => self.searched.extend(uids),
            Response::Data {
                status: Status::Ok,
                outcome,
            } => match &outcome.code {
                Some(ResponseCode::UidValidity(n)) => self.opened.uid_validity = *n,
                Some(ResponseCode::UidNext(n)) => self.opened.uid_next = *n,
                Some(ResponseCode::PermanentFlags(flags)) => {
                    self.permanent = Some(flags.iter().map(ToString::to_string).collect());
                }
                _ => {}
            },
            Response::Fetch(seq, attributes) => self.collected.add(*seq, attributes, frame),
            _ => {}
        }
    }
}

/// Where a message is: nothing but these three together names one in IMAP (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug)]
pub(in crate::mail) struct Spot<'a> {
    /// The folder's path.
    pub(in crate::mail) path: &'a str,
    /// Under which `uid` holds.
    pub(in crate::mail) uid_validity: u32,
    /// The IMAP UID.
    pub(in crate::mail) uid: u32,
}

/// A command that lacks its end, and the connection that it is on. Dropped, the connection closes and the server forgets the command.
pub(in crate::mail) struct Unended {
    wire: Wire,
    sent: Sent,
    end: String,
}

impl Session {
    pub(super) fn new(wire: Wire, capabilities: Capabilities, timeout: Duration) -> Self {
        Self {
            wire: Some(wire),
            capabilities,
            timeout,
            literal: None,
            last: None,
            recent: None,
            open: None,
            inbox: None,
        }
    }

    /// Notes the folder that is open from here on, or may be. What was known of the one before is forgotten; its name is answered.
    fn opens(&mut self, name: Option<String>) -> Option<String> {
        self.last = None;
        self.inbox = None;
        std::mem::replace(&mut self.open, name)
    }

    /// What closes the folder that may be open, and changes nothing: commands of which it does not matter how they end. A server need not tell the state of a
    /// folder that is open on the connection that asks (RFC 3501, section 6.3.10), and Dovecot tells that of the folder which was called so when it was opened.
    pub(super) fn closing(&mut self) -> Vec<String> {
        match self.opens(None) {
            None => Vec::new(),
            Some(_) if self.capabilities.unselect => vec!["UNSELECT".to_owned()],
            // What is only examined loses nothing when it is closed.
            Some(name) => vec![format!("EXAMINE {name}"), "CLOSE".to_owned()],
        }
    }

    /// Sends commands in one write and reads all of their answers.
    pub(super) async fn run(
        &mut self,
        commands: &[String],
        on: On<'_>,
    ) -> Result<Vec<Outcome>, Error> {
        let mut wire = self.taken()?;
        let tags: Vec<String> = commands.iter().map(|command| wire.queue(command)).collect();
        let outcomes = timeout(self.timeout, wire.finish(&tags, on))
            .await
            .map_err(|_| late())??;
        self.wire = Some(wire);
        Ok(outcomes)
    }

    /// Sends one command that may have literals and reads its answers.
    pub(super) async fn run_one(
        &mut self,
        command: &Command,
        on: On<'_>,
    ) -> Result<Outcome, Error> {
        let mut wire = self.taken()?;
        let at_once = self.capabilities.literal_plus;
        let ran = async {
            match wire.queue_command(command, at_once, on).await? {
                Sent::Whole(tag) => {
                    let outcome = wire.finish(&[tag], on).await?.pop();
                    outcome.ok_or_else(|| Error::Protocol("no answer".into()))
                }
                Sent::Refused(outcome) => Ok(outcome),
            }
        };
        let outcome = timeout(self.timeout * LONG, ran)
            .await
            .map_err(|_| late())??;
        self.wire = Some(wire);
        Ok(outcome)
    }

    /// Sends a command with a literal but for its end. The connection serves nothing else until [`Session::end_command`]. It was alive when the command was
    /// begun: the server answered.
    pub(super) async fn begin_command(&mut self, command: Command) -> Result<Unended, Error> {
        let mut wire = self.taken()?;
        let at_once = self.capabilities.literal_plus;
        let on: On<'_> = &mut |_, _| Ok(());
        let begun = async {
            // Dovecot may keep a NOOP's answer back until the command behind it has ended. A server that asks for the literal answers by that.
            let asked = at_once.then(|| wire.queue("CAPABILITY"));
            let sent = wire.queue_literals(&command, at_once, on).await?;
            for outcome in wire.finish(asked.as_slice(), on).await? {
                outcome.ok()?;
            }
            Ok::<_, Error>(sent)
        };
        let small = |(_, literal): &(String, Bytes)| literal.len() <= SMALL;
        let patience = if command.literals.iter().all(small) {
            self.timeout
        } else {
            self.timeout * LONG
        };
        let sent = timeout(patience, begun).await.map_err(|_| late())??;
        Ok(Unended {
            wire,
            sent,
            end: command.end,
        })
    }

    /// Ends a command and reads its answers.
    pub(super) async fn end_command(&mut self, unended: Unended) -> Result<Outcome, Error> {
        let Unended {
            mut wire,
            sent,
            end,
        } = unended;
        let ended = async {
            match sent {
                Sent::Whole(tag) => {
                    wire.queue_line(&end);
                    let outcome = wire.finish(&[tag], &mut |_, _| Ok(())).await?.pop();
                    outcome.ok_or_else(|| Error::Protocol("no answer".into()))
                }
                Sent::Refused(outcome) => Ok(outcome),
            }
        };
        let outcome = timeout(self.timeout * LONG, ended)
            .await
            .map_err(|_| late())??;
        self.wire = Some(wire);
        Ok(outcome)
    }

    /// Whether the server has said nothing since its last answer, not even that it is gone.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.wire.as_mut().is_some_and(Wire::is_quiet)
    }

    fn taken(&mut self) -> Result<Wire, Error> {
        self.wire
            .take()
            .ok_or_else(|| Error::Protocol("the connection was broken before".into()))
    }

    /// Opens the folder `name` and, in the same write, sends `command`.
    ///
    /// It is opened anew for every use, although it may be open already: only that tells of a folder that was renamed or made
    /// anew meanwhile, and that no arrival and no flag is missed. Beside a FETCH it costs a fifth of a millisecond and no
    /// round trip.
    pub(super) async fn open(
        &mut self,
        how: Open,
        name: &str,
        command: Option<&str>,
    ) -> Result<Opening, Error> {
        let quoted =
            super::quoted(name).ok_or_else(|| Error::Protocol("not a folder's name".into()))?;
        // To select it once ends that; it changes nothing else.
        let how = if self.recent.take_if(|recent| recent == name).is_some() {
            Open::Select
        } else {
            how
        };
        let mut commands = vec![format!("{how} {quoted}")];
        commands.extend(command.map(ToOwned::to_owned));
        let mut opening = Opening::default();
        self.opens(Some(quoted));
        let outcomes = self
            .run(&commands, &mut |reply, frame| {
                opening.see(reply, frame);
                Ok(())
            })
            .await?;
        let mut outcomes = outcomes.into_iter();
        let opened = outcomes
            .next()
            .ok_or_else(|| Error::Protocol(format!("no answer to {how}")))?;
        opening.outcome = outcomes.next();
        match opened.status {
            Status::Ok => {
                self.last = Some((name.to_owned(), opening.opened.exists));
                if matches!(how, Open::Examine) && opening.recent > bounds::RECENT {
                    self.recent = Some(name.to_owned());
                }
                Ok(opening)
            }
            Status::No => Ok(Opening {
                refused: Some(opened),
                ..Opening::default()
            }),
            _ => Err(Error::Protocol(format!(
                "{how} was not understood: {}",
                opened.text
            ))),
        }
    }

    /// The same of the folder that clients call `path`. None where there is no such folder.
    pub(super) async fn open_path(
        &mut self,
        how: Open,
        path: &str,
        command: Option<&str>,
    ) -> Result<Option<Opening>, Error> {
        let Some(mut name) = super::utf7::name(path) else {
            return Ok(None);
        };
        for sought in [false, true] {
            let mut opening = self.open(how, &name, command).await?;
            match opening.refused.take() {
                None => return Ok(Some(opening)),
                Some(no) if !sought => match self.unopened(path, &name, no).await? {
                    Some(other) => name = other,
                    None => return Ok(None),
                },
                Some(no) => return Err(Error::No(no.text)),
            }
        }
        Ok(None)
    }

    /// The `limit` messages of `path` after the newest `offset`, ascending, with their UIDs and flags. None where there is no such folder.
    ///
    /// One round trip where the folder is the one opened last and holds as many messages as then, two otherwise.
    pub(in crate::mail) async fn window(
        &mut self,
        path: &str,
        offset: u32,
        limit: u32,
    ) -> Result<Option<(Opened, Vec<Fetched>)>, Error> {
        let Some(mut name) = super::utf7::name(path) else {
            return Ok(None);
        };
        let mut sought = false;
        for _ in 0..3 {
            let guess = self
                .last
                .as_ref()
                .filter(|(last, _)| *last == name)
                .map(|(_, n)| *n);
            let guessed = guess.and_then(|total| range(total, offset, limit));
            let Opening {
                opened,
                outcome,
                collected,
                refused,
                ..
            } = self
                .open(Open::Examine, &name, guessed.map(fetch::flags).as_deref())
                .await?;
            match refused {
                None => {}
                Some(no) if !sought => match self.unopened(path, &name, no).await? {
                    Some(other) => {
                        (name, sought) = (other, true);
                        continue;
                    }
                    None => return Ok(None),
                },
                Some(no) => return Err(Error::No(no.text)),
            }
            let Some(wanted) = range(opened.exists, offset, limit) else {
                return Ok(Some((opened, Vec::new())));
            };
            let (outcome, collected) = if guessed == Some(wanted) {
                (outcome, collected)
            } else {
                let (outcome, collected) = self.fetch(&fetch::flags(wanted)).await?;
                (Some(outcome), collected)
            };
            let mut fetched = collected.with_flags();
            fetched.retain(|message| (wanted.0..=wanted.1).contains(&message.seq));
            let whole = fetched.len() as u64 == u64::from(wanted.1 - wanted.0) + 1;
            match outcome.map(|o| o.status) {
                Some(Status::Ok) if whole => return Ok(Some((opened, fetched))),
                Some(Status::Ok | Status::No) => {
                    // Some were expunged by another session between the two commands (RFC 5530, EXPUNGEISSUED): look again.
                    self.last = None;
                }
                _ => return Err(Error::Protocol("FETCH was not understood".into())),
            }
        }
        Err(Error::Unavailable(
            "the folder changes faster than it can be read".into(),
        ))
    }

    /// The message at `spot`, up to [`bounds::FIRST`] bytes of it. None where there is no such folder, or no such message in it. One round
    /// trip.
    pub(in crate::mail) async fn message(
        &mut self,
        spot: Spot<'_>,
    ) -> Result<Option<Fetched>, Error> {
        self.one(spot, &fetch::whole(spot.uid)).await
    }

    /// Some bytes of the message at `spot`, fewer where it ends before. None where it is not there. One round trip.
    pub(in crate::mail) async fn piece_of(
        &mut self,
        spot: Spot<'_>,
        range: &Range<usize>,
    ) -> Result<Option<Bytes>, Error> {
        let fetched = self.one(spot, &fetch::piece(spot.uid, range)).await?;
        Ok(fetched.map(|fetched| fetched.whole))
    }

    /// The same of a message of the folder that is open.
    pub(in crate::mail) async fn piece(
        &mut self,
        uid: u32,
        range: &Range<usize>,
    ) -> Result<Option<Bytes>, Error> {
        let (outcome, collected) = self.fetch(&fetch::piece(uid, range)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_bytes().into_iter();
                Ok(fetched.find(|f| f.uid == uid).map(|f| f.whole))
            }
            _ => Err(Error::Protocol("FETCH was not understood".into())),
        }
    }

    /// Sends for bytes of a message of the folder that is open, all in one command: [`Session::some`] gives them as they come, and until the last of
    /// them nothing else can be done. Answers how many there are: as many as `range` has, fewer where the message ends before. None where
    /// it is not there.
    pub(in crate::mail) async fn send_for(
        &mut self,
        uid: u32,
        range: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let mut wire = self.taken()?;
        let tag = wire.queue(&fetch::piece(uid, range));
        let head = Head::of(uid, None);
        self.begin(wire, tag, head, range).await
    }

    /// The same of the message at `spot`, whose folder is opened in the same write. None where it cannot be had so: whether it is there is to be
    /// seen by [`Session::piece_of`] then.
    pub(in crate::mail) async fn send_for_at(
        &mut self,
        spot: Spot<'_>,
        range: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let name = super::utf7::name(spot.path).and_then(|name| super::quoted(&name));
        let Some(name) = name else {
            return Ok(None);
        };
        let mut wire = self.taken()?;
        wire.queue(&format!("EXAMINE {name}"));
        self.opens(Some(name));
        let tag = wire.queue(&fetch::piece(spot.uid, range));
        let head = Head::of(spot.uid, Some(spot.uid_validity));
        self.begin(wire, tag, head, range).await
    }

    async fn begin(
        &mut self,
        mut wire: Wire,
        tag: String,
        head: Head,
        range: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let told = timeout(self.timeout, head.read(&mut wire, &tag))
            .await
            .map_err(|_| late())??;
        match told {
            Told::Bytes(left) if left > range.len() => {
                Err(Error::Protocol("more bytes than were asked for".into()))
            }
            Told::Bytes(left) => {
                self.literal = Some(Literal { wire, tag, left });
                Ok(Some(left))
            }
            Told::Empty => {
                self.wire = Some(wire);
                Ok(Some(0))
            }
            Told::Nothing => {
                self.wire = Some(wire);
                Ok(None)
            }
            // Its bytes are on their way and nobody wants them: the connection ends here.
            Told::Another => Ok(None),
        }
    }

    /// Some of the bytes that were sent for, at least one.
    pub(in crate::mail) async fn some(&mut self) -> Result<Bytes, Error> {
        let mut literal = self
            .literal
            .take()
            .ok_or_else(|| Error::Protocol("nothing was sent for".into()))?;
        let taken = async {
            let bytes = literal.wire.some(literal.left).await?;
            literal.left -= bytes.len();
            if literal.left == 0 {
                // The rest of that reply, and the end of the command.
                literal.wire.reply().await?;
                let tags = [literal.tag.clone()];
                let outcomes = literal.wire.finish(&tags, &mut |_, _| Ok(())).await?;
                for outcome in outcomes {
                    outcome.ok()?;
                }
            }
            Ok::<_, Error>(bytes)
        };
        let bytes = timeout(self.timeout, taken).await.map_err(|_| late())??;
        if literal.left == 0 {
            self.wire = Some(literal.wire);
        } else {
            self.literal = Some(literal);
        }
        Ok(bytes)
    }

    async fn one(&mut self, spot: Spot<'_>, command: &str) -> Result<Option<Fetched>, Error> {
        let opening = self
            .open_path(Open::Examine, spot.path, Some(command))
            .await?;
        let Some(opening) = opening else {
            return Ok(None);
        };
        if opening.opened.uid_validity != spot.uid_validity {
            return Ok(None);
        }
        let mut fetched = opening.collected.with_bytes().into_iter();
        let found = fetched.find(|f| f.uid == spot.uid);
        match opening.outcome.map(|o| o.status) {
            // NO: the message was expunged a moment ago.
            Some(Status::Ok | Status::No) => Ok(found),
            _ => Err(Error::Protocol("FETCH was not understood".into())),
        }
    }

    /// Reads what a listing needs of messages of the folder that is open. `each` gets every message when it was read.
    pub(in crate::mail) async fn summaries(
        &mut self,
        uids: &[u32],
        each: &mut (dyn FnMut(Fetched) + Send),
    ) -> Result<(), Error> {
        if uids.is_empty() {
            return Ok(());
        }
        let ids = self.capabilities.message_ids();
        let mut collected = Collected::default();
        let outcomes = self
            .run(&[fetch::summaries(uids, ids)], &mut |reply, frame| {
                if let Response::Fetch(seq, attributes) = reply {
                    collected.add(*seq, attributes, frame);
                    if let Some(message) = collected.take(*seq, ids.is_some()) {
                        each(message);
                    }
                }
                Ok(())
            })
            .await?;
        if !matches!(
            outcomes[..],
            [Outcome {
                status: Status::Ok | Status::No,
                ..
            }]
        ) {
            return Err(Error::Protocol("FETCH was not understood".into()));
        }
        collected.with_bytes().into_iter().for_each(each);
        Ok(())
    }

    /// Longer headers and beginnings of messages of the folder that is open, for those whose header or text the first did not reach.
    pub(in crate::mail) async fn longer(&mut self, uids: &[u32]) -> Result<Vec<Fetched>, Error> {
        let (outcome, collected) = self.fetch(&fetch::longer(uids)).await?;
        match outcome.status {
            Status::Ok | Status::No => Ok(collected.with_bytes()),
            _ => Err(Error::Protocol("FETCH was not understood".into())),
        }
    }

    pub(super) async fn fetch(&mut self, command: &str) -> Result<(Outcome, Collected), Error> {
        let mut collected = Collected::default();
        let mut outcomes = self
            .run(&[command.to_owned()], &mut |reply, frame| {
                if let Response::Fetch(seq, attributes) = reply {
                    collected.add(*seq, attributes, frame);
                }
                Ok(())
            })
            .await?;
        let outcome = outcomes
            .pop()
            .ok_or_else(|| Error::Protocol("no answer to FETCH".into()))?;
        Ok((outcome, collected))
    }

    /// Why `name` could not be opened: none where there is no folder `path` that can be, another name where the server writes
    /// that path differently. What is listed under this very name and still refused is an error.
    ///
    /// The text of a NO is for people and its code is not sent by every server, so the list decides.
    async fn unopened(
        &mut self,
        path: &str,
        name: &str,
        no: Outcome,
    ) -> Result<Option<String>, Error> {
        if no.says("NONEXISTENT") || no.says("CANNOT") {
            return Ok(None);
        }
        let found = self
            .list()
            .await?
            .into_iter()
            .find(|f| f.selectable && f.path == path);
        match found {
            None => Ok(None),
            Some(folder) if folder.name == name => Err(Error::No(no.text)),
            Some(folder) => Ok(Some(folder.name)),
        }
    }

    pub(super) async fn list(&mut self) -> Result<Vec<Listed>, Error> {
        let mut listed = list::Collected::default();
        let outcomes = self
            .run(&["LIST \"\" \"*\"".to_owned()], &mut |reply, frame| {
                listed.add(reply, frame);
                Ok(())
            })
            .await?;
        for outcome in outcomes {
            outcome.ok()?;
        }
        Ok(listed.folders)
    }
}

impl pool::Session for Session {
    fn is_whole(&self) -> bool {
        self.wire.is_some()
    }

    /// Whether it was this one that was opened last.
    fn had_open(&self, folder: &str) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(name, _)| *name == super::utf7::encode(folder))
    }
}

fn late() -> Error {
    Error::Unavailable("the mail server did not answer in time".into())
}

/// What the server had to say to a command for bytes of a message.
enum Told {
    /// So many are coming.
    Bytes(usize),
    /// The message has none there.
    Empty,
    /// Nothing: the message is not there.
    Nothing,
    /// Bytes are coming, but of a message in a folder that was made anew.
    Another,
}

/// What comes before the bytes of a message that were sent for.
struct Head {
    uid: u32,
    /// Under which UIDVALIDITY the message is meant, where its folder is only being opened.
    uid_validity: Option<u32>,
    /// Whether the server told of the message.
    there: bool,
}

impl Head {
    fn of(uid: u32, uid_validity: Option<u32>) -> Self {
        Self {
            uid,
            uid_validity,
            there: false,
        }
    }

    /// Sends what is queued and reads up to the bytes that the command `tag` asked for, or up to the end of that command.
    async fn read(mut self, wire: &mut Wire, tag: &str) -> Result<Told, Error> {
        wire.flush().await?;
        let mut opened = None;
        loop {
            let frame = match wire.next().await? {
                // Nothing else that is told now has any.
                Next::Literal(0) => {
                    self.there = true;
                    wire.reply().await?
                }
                Next::Literal(length) if self.uid_validity == opened => {
                    return Ok(Told::Bytes(length));
                }
                Next::Literal(_) => return Ok(Told::Another),
                Next::Reply(frame) => frame,
            };
            match parse(&frame) {
                Ok(Response::Done {
                    tag: answered,
                    status,
                    ..
                }) => match status {
                    Status::Ok | Status::No if answered.0 == tag => {
                        return Ok(if self.there && self.uid_validity == opened {
                            Told::Empty
                        } else {
                            Told::Nothing
                        });
                    }
                    // Of the command before it: whether it opened the folder shows in what was told of it. Without a folder
                    // there is nothing to fetch from.
                    Status::Ok | Status::No => {}
                    Status::Bad if answered.0 == tag && opened.is_none() => {
                        return Ok(Told::Nothing);
                    }
                    _ => return Err(Error::Protocol("FETCH was not understood".into())),
                },
                Ok(Response::Data {
                    status: Status::Ok,
                    outcome,
                }) => {
                    if let Some(ResponseCode::UidValidity(validity)) = outcome.code {
                        opened = Some(validity);
                    }
                }
                Ok(Response::Fetch(_, attributes)) => {
                    let uid = AttributeValue::Uid(self.uid);
                    self.there |= attributes.contains(&uid);
                }
                Ok(_) => {}
                // What is left of a reply after an empty literal.
                Err(Error::Protocol(_)) if self.there => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The sequence numbers of `limit` messages after the newest `offset`, of `total`; none where there are none.
fn range(total: u32, offset: u32, limit: u32) -> Option<(u32, u32)> {
    let high = total.checked_sub(offset).filter(|high| *high > 0)?;
    (limit > 0).then(|| (high.saturating_sub(limit - 1).max(1), high))
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn pages_are_counted_from_the_newest() {
        assert_eq!(range(10, 0, 4), Some((7, 10)));
        assert_eq!(range(10, 8, 4), Some((1, 2)));
        assert_eq!(range(10, 10, 4), None);
        assert_eq!(range(10, u32::MAX, 4), None);
        assert_eq!(range(0, 0, 4), None);
        assert_eq!(range(10, 0, 0), None);
        assert_eq!(range(u32::MAX, 0, 1), Some((u32::MAX, u32::MAX)));
    }
}
