//! A connection that is logged in. It tracks which folder is open. A failed or cancelled command makes the session unusable: each command takes the wire and
//! puts it back only after all of its replies were read.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use imap_proto::{AttributeValue, MailboxDatum, Response, ResponseCode, Status};
use tokio::time::timeout;

use super::Error;
use super::bounds;
use super::capabilities::Capabilities;
use super::change::Writable;
use super::command::Command;
use super::fetch::{self, Collected, Fetched};
use super::list::{self, Listed};
use super::wire::{Frame, Next, On, Outcome, SMALL, Sent, Wire, parse};

/// Timeout factor for commands with literals: a search reads every message, and a message can have 25 MB.
const LONG: u32 = 4;

/// An authenticated IMAP connection.
#[derive(Debug)]
pub struct Session {
    wire: Option<Wire>,
    pub(crate) capabilities: Capabilities,
    timeout: Duration,
    /// The literal that is being read in pieces. It owns the wire until it is complete.
    literal: Option<Literal>,
    /// The folder opened last, by the server's name, and its number of messages at that time.
    last: Option<(String, u32)>,
    /// A folder that is slow to open because it has many recent messages.
    recent: Option<String>,
    /// The quoted name of the folder that is open or may be open.
    open: Option<String>,
    /// INBOX as it was opened for writing, while it is the open folder.
    pub(crate) inbox: Option<Writable>,
}

/// Bytes of a message that the server is sending.
#[derive(Debug)]
struct Literal {
    wire: Wire,
    tag: String,
    left: usize,
}

/// The state of a folder when it was opened (RFC 3501, section 6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The number of messages.
    pub exists: u32,
    /// The UIDVALIDITY.
    pub uid_validity: u32,
    /// UIDNEXT: the smallest UID that the next message can get, or 0 if the server does not say.
    pub uid_next: u32,
}

/// The mode in which a folder is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Open {
    /// Read-only.
    Examine,
    /// For writing.
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

/// The result of opening a folder and of the command that was sent with it.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    pub(crate) opened: Opened,
    /// The permanent flags (RFC 3501, section 7.1, PERMANENTFLAGS), or `None` if the server does not say.
    pub(crate) permanent: Option<Vec<String>>,
    /// The number of recent messages: those that no session with write access has seen (RFC 3501, section 2.3.2).
    recent: u32,
    /// The NO response, if the folder could not be opened.
    pub(crate) refused: Option<Outcome>,
    /// The outcome of the command.
    pub(crate) outcome: Option<Outcome>,
    /// The messages that the command fetched.
    pub(crate) collected: Collected,
    /// The UIDs that the command found, in the server's order.
    pub(crate) searched: Vec<u32>,
}

impl Opening {
    fn see(&mut self, reply: &Response<'_>, frame: &Frame) {
        match reply {
            // The first EXISTS is the state at opening. A later one includes messages that arrived after it.
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

/// The location of a message. In IMAP only these three values together identify a message (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The folder's path.
    pub path: &'a str,
    /// The UIDVALIDITY for which `uid` is valid.
    pub uid_validity: u32,
    /// The IMAP UID.
    pub uid: u32,
}

/// A command without its last line, and its connection. If the value is dropped, the connection closes and the server discards the command.
pub struct Unended {
    wire: Wire,
    sent: Sent,
    end: String,
}

impl Session {
    pub(crate) fn new(wire: Wire, capabilities: Capabilities, timeout: Duration) -> Self {
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

    /// Records the folder that is open, or may be open, from now on, and clears the state of the previous one. Returns the previous folder's name.
    fn opens(&mut self, name: Option<String>) -> Option<String> {
        self.last = None;
        self.inbox = None;
        std::mem::replace(&mut self.open, name)
    }

    /// Returns commands that close the open folder without changing it. Their outcomes do not matter. STATUS of a folder that is open on the same connection
    /// may be outdated (RFC 3501, section 6.3.10), and Dovecot returns the state of the folder that had the name when it was opened.
    pub(crate) fn closing(&mut self) -> Vec<String> {
        match self.opens(None) {
            None => Vec::new(),
            Some(_) if self.capabilities.unselect => vec!["UNSELECT".to_owned()],
            // CLOSE expunges nothing in a folder that was opened with EXAMINE.
            Some(name) => vec![format!("EXAMINE {name}"), "CLOSE".to_owned()],
        }
    }

    /// Sends commands in one write and reads all replies.
    pub(crate) async fn run(
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

    /// Sends one command, possibly with literals, and reads its replies.
    pub(crate) async fn run_one(
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
                    outcome.ok_or_else(|| Error::Protocol("no response to a command".into()))
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

    /// Sends a command with a literal except for its last line. The connection cannot be used for anything else until [`Session::end_command`]. The server has
    /// responded in between, so the connection works.
    pub(crate) async fn begin_command(&mut self, command: Command) -> Result<Unended, Error> {
        let mut wire = self.taken()?;
        let at_once = self.capabilities.literal_plus;
        let on: On<'_> = &mut |_, _| Ok(());
        let begun = async {
            // Use CAPABILITY instead of NOOP: Dovecot may delay the response to NOOP until the next command has ended. Without LITERAL+, the continuation is
            // the response.
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

    /// Sends the last line of a command and reads its replies.
    pub(crate) async fn end_command(&mut self, unended: Unended) -> Result<Outcome, Error> {
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
                    outcome.ok_or_else(|| Error::Protocol("no response to a command".into()))
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

    /// Returns `true` if the server has sent nothing since its last reply and has not closed the connection.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.wire.as_mut().is_some_and(Wire::is_quiet)
    }

    fn taken(&mut self) -> Result<Wire, Error> {
        self.wire.take().ok_or_else(|| {
            Error::Protocol("an earlier command made the connection unusable".into())
        })
    }

    /// Opens the folder `name` and sends `command` in the same write.
    ///
    /// The folder is opened again for every use, even if it is already open. Otherwise a folder that was renamed or created again would go unnoticed, and so
    /// could new messages and flags. Together with a FETCH this costs 0.2 ms and no additional round trip.
    pub(crate) async fn open(
        &mut self,
        how: Open,
        name: &str,
        command: Option<&str>,
    ) -> Result<Opening, Error> {
        let quoted =
            super::quoted(name).ok_or_else(|| Error::Protocol("invalid folder name".into()))?;
        // Opening the folder once with SELECT clears `\Recent` and changes nothing else.
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
            .ok_or_else(|| Error::Protocol(format!("no response to {how}")))?;
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
                "the server rejected {how} with BAD: {}",
                opened.text
            ))),
        }
    }

    /// Opens the folder with the path `path`. Returns `None` if the folder does not exist.
    pub(crate) async fn open_path(
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

    /// Returns the UIDs and flags of the `limit` messages of `path` after the newest `offset`, in ascending order. Returns `None` if the folder does not exist.
    ///
    /// Needs one round trip if the folder was opened last and its number of messages has not changed, otherwise two.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn window(
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
                    // Another session expunged messages between the two commands (RFC 5530, EXPUNGEISSUED). Try again.
                    self.last = None;
                }
                _ => return Err(Error::Protocol("the server rejected FETCH with BAD".into())),
            }
        }
        Err(Error::Unavailable(
            "the folder changed during every attempt to read it".into(),
        ))
    }

    /// Returns the message at `spot`, up to [`bounds::FIRST`] bytes, or `None` if it is not there. Needs one round trip.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn message(&mut self, spot: Spot<'_>) -> Result<Option<Fetched>, Error> {
        self.one(spot, &fetch::whole(spot.uid)).await
    }

    /// Returns a range of bytes of the message at `spot`, fewer if the message is shorter, or `None` if it is not there. Needs one round trip.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn piece_of(
        &mut self,
        spot: Spot<'_>,
        range: &Range<usize>,
    ) -> Result<Option<Bytes>, Error> {
        let fetched = self.one(spot, &fetch::piece(spot.uid, range)).await?;
        Ok(fetched.map(|fetched| fetched.whole))
    }

    /// Returns a range of bytes of a message in the open folder, fewer if the message is shorter, or `None` if it is not there.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn piece(&mut self, uid: u32, range: &Range<usize>) -> Result<Option<Bytes>, Error> {
        let (outcome, collected) = self.fetch(&fetch::piece(uid, range)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_bytes().into_iter();
                Ok(fetched.find(|f| f.uid == uid).map(|f| f.whole))
            }
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Requests a range of bytes of a message in the open folder with one command. [`Session::some`] returns them as they arrive. No other command is possible
    /// before the last of them. Returns their number, which is smaller than the range if the message is shorter, or `None` if the message is not there.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn send_for(
        &mut self,
        uid: u32,
        range: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let mut wire = self.taken()?;
        let tag = wire.queue(&fetch::piece(uid, range));
        let head = Head::of(uid, None);
        self.begin(wire, tag, head, range).await
    }

    /// Requests a range of bytes of the message at `spot`, and opens its folder in the same write. Otherwise like [`Session::send_for`]. After `None`, use
    /// [`Session::piece_of`] to check whether the message is there.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn send_for_at(
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
            Told::Bytes(left) if left > range.len() => Err(Error::Protocol(
                "the server announced more bytes than requested".into(),
            )),
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
            // The server is sending bytes of another message. Dropping the wire closes the connection.
            Told::Another => Ok(None),
        }
    }

    /// Returns the next requested bytes, at least one.
    ///
    /// # Errors
    /// Returns the [`Error`] of the connection.
    pub async fn some(&mut self) -> Result<Bytes, Error> {
        let mut literal = self
            .literal
            .take()
            .ok_or_else(|| Error::Protocol("no bytes were requested".into()))?;
        let taken = async {
            let bytes = literal.wire.some(literal.left).await?;
            literal.left -= bytes.len();
            if literal.left == 0 {
                // Read the rest of the FETCH reply and the end of the command.
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
            // NO: the message was just expunged.
            Some(Status::Ok | Status::No) => Ok(found),
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Reads the data of summaries of messages in the open folder. Calls `each` with every message as soon as it is complete.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn summaries(
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
            return Err(Error::Protocol("the server rejected FETCH with BAD".into()));
        }
        collected.with_bytes().into_iter().for_each(each);
        Ok(())
    }

    /// Reads longer headers and texts of messages in the open folder.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn longer(&mut self, uids: &[u32]) -> Result<Vec<Fetched>, Error> {
        let (outcome, collected) = self.fetch(&fetch::longer(uids)).await?;
        match outcome.status {
            Status::Ok | Status::No => Ok(collected.with_bytes()),
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    pub(crate) async fn fetch(&mut self, command: &str) -> Result<(Outcome, Collected), Error> {
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
            .ok_or_else(|| Error::Protocol("no response to FETCH".into()))?;
        Ok((outcome, collected))
    }

    /// Finds out why `name` could not be opened. Returns `None` if no folder `path` can be opened, or the server's name for `path` if it differs. Returns an
    /// error if the folder is listed under this name and the server still does not open it.
    ///
    /// The list decides, because the text of a NO is for people and some servers send no response code.
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

    pub(crate) async fn list(&mut self) -> Result<Vec<Listed>, Error> {
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

    /// Returns `true` if the connection can be used again.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.wire.is_some()
    }

    /// Returns `true` if this folder was opened last.
    #[must_use]
    pub fn had_open(&self, folder: &str) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(name, _)| *name == super::utf7::encode(folder))
    }
}

fn late() -> Error {
    Error::Unavailable("the mail server did not respond in time".into())
}

/// The server's reply to a request for bytes of a message.
enum Told {
    /// The server is sending this number of bytes.
    Bytes(usize),
    /// The message has no bytes in the range.
    Empty,
    /// The message is not there.
    Nothing,
    /// The server is sending bytes of another message, because the folder was created again.
    Another,
}

/// Reads the replies before the requested bytes of a message.
struct Head {
    uid: u32,
    /// The expected UIDVALIDITY, if the folder is opened in the same write.
    uid_validity: Option<u32>,
    /// `true` once the server has sent data of the message.
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

    /// Writes the queued commands and reads up to the bytes that command `tag` requested, or to the end of that command.
    async fn read(mut self, wire: &mut Wire, tag: &str) -> Result<Told, Error> {
        wire.flush().await?;
        let mut opened = None;
        loop {
            let frame = match wire.next().await? {
                // Only the requested bytes are sent as a literal.
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
                    // The outcome of EXAMINE. UIDVALIDITY shows whether it succeeded. If no folder is open, the server rejects FETCH with BAD.
                    Status::Ok | Status::No => {}
                    Status::Bad if answered.0 == tag && opened.is_none() => {
                        return Ok(Told::Nothing);
                    }
                    _ => return Err(Error::Protocol("the server rejected FETCH with BAD".into())),
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
                // The rest of a reply after an empty literal.
                Err(Error::Protocol(_)) if self.there => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the positions of `limit` messages after the newest `offset` of `total`, or `None` if there are none.
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
