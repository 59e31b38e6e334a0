use super::*;
use crate::fuzzing::{block_on, session};
use crate::{INBOX, undeleted};

const EXAMINE: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 1] ok\r\n";
const FETCH: &str = "* 2 FETCH (UID 7 FLAGS () BODY[]<0> {4}\r\nabcd)\r\n";
const MESSAGE: MessageRef<'_> = MessageRef {
    path: INBOX,
    uid_validity: 1,
    uid: Uid(7),
};

/// Reads [`MESSAGE`] twice. The server sends `second` in response to the commands of the second
/// reading.
fn read_twice(second: &[&str]) -> Result<Option<Fetched>, Error> {
    let mut session = session(&[&[EXAMINE, FETCH], second].concat());
    assert!(block_on(session.message(MESSAGE)).unwrap().is_some());
    block_on(session.message(MESSAGE))
}

#[test]
fn an_open_folder_is_opened_again_only_if_the_message_is_not_in_it() {
    let mut session = session(&[
        EXAMINE,
        "* SEARCH 7\r\n",
        FETCH,
        "",
        EXAMINE,
        FETCH,
        EXAMINE,
        FETCH,
    ]);
    let found = block_on(undeleted(&mut session, INBOX)).unwrap().unwrap();
    assert_eq!(found.1, [Uid(7)]);
    let mut read = |message| {
        let read = beginning_in_open_folder(&mut session, message, 100);
        block_on(read).unwrap().map(|message| message.whole)
    };
    assert_eq!(read(MESSAGE).as_deref(), Some(&b"abcd"[..]));
    // The server does not return the message until the folder is opened again.
    assert_eq!(read(MESSAGE).as_deref(), Some(&b"abcd"[..]));
    let replaced = MessageRef {
        uid_validity: 2,
        ..MESSAGE
    };
    assert_eq!(read(replaced), None);
}

#[test]
fn bytes_that_the_server_could_not_read_are_not_an_empty_message() {
    const NIL: &str = "* 2 FETCH (UID 7 FLAGS () RFC822.SIZE 4 BODY[]<0> NIL)\r\n";
    let expunged = format!("{NIL}! NO [EXPUNGEISSUED] expunged\r\n");
    let read = |reply: &str| {
        let mut session = session(&[EXAMINE, "", &expunged, EXAMINE, reply]);
        block_on(undeleted(&mut session, INBOX)).unwrap();
        block_on(beginning_in_open_folder(&mut session, MESSAGE, 100))
    };
    assert!(read("").unwrap().is_none());
    assert!(read(&expunged).unwrap().is_none());
    let failed = read(&format!("{NIL}! NO [SERVERBUG] failed\r\n"));
    assert!(matches!(failed, Err(Error::No(_))), "{failed:?}");
}

#[test]
fn a_message_is_read_from_the_open_inbox_without_opening_it_again() {
    let message = read_twice(&["", FETCH]).unwrap().unwrap();
    assert_eq!(&message.whole[..], b"abcd");
}

#[test]
fn the_beginning_is_read_from_the_open_inbox_or_after_opening_it() {
    let read = |replies: &[&str]| {
        let mut session = session(replies);
        let mut beginning = || block_on(super::beginning(&mut session, MESSAGE, 4)).unwrap();
        assert_eq!(&beginning().unwrap().whole[..], b"abcd");
        beginning().map(|message| message.whole)
    };
    assert_eq!(&read(&[EXAMINE, FETCH, "", FETCH]).unwrap()[..], b"abcd");
    let removed = format!("{FETCH}* 2 EXPUNGE\r\n");
    let first = [EXAMINE, FETCH, "", removed.as_str()];
    assert_eq!(read(&[&first[..], &[EXAMINE, ""]].concat()), None);
    assert!(read(&[&first[..], &[EXAMINE, FETCH]].concat()).is_some());
}

#[test]
fn a_message_whose_bytes_are_nil_does_not_exist() {
    // A server can send these replies for a message that another client has expunged.
    let opened = |section: &str| {
        let gone = format!("* 2 FETCH (UID 7 FLAGS () {section} NIL)\r\n");
        session(&[EXAMINE, &format!("{gone}! NO [EXPUNGEISSUED] gone\r\n")])
    };
    let (whole, range) = ("BODY[]<0>", 0..4);
    let beginning = block_on(super::beginning(&mut opened(whole), MESSAGE, 4));
    assert!(beginning.unwrap().is_none());
    let piece = block_on(opened(whole).read_range_at(MESSAGE, &range));
    assert!(piece.unwrap().is_none());
    let stream = block_on(opened(whole).start_stream_at(MESSAGE, &range));
    assert!(stream.unwrap().is_none());
    let state = block_on(opened("BODY[HEADER.FIELDS (DATE)]<0>").state_at(MESSAGE, true));
    assert!(state.unwrap().is_none());
}

#[test]
fn flags_do_not_prove_that_a_message_exists_if_the_server_returns_no() {
    const FLAGS: &str = "* 2 FETCH (UID 7 FLAGS (\\Seen))\r\n";
    let read = |reply: &str| {
        let mut session = session(&[EXAMINE, reply]);
        block_on(session.state_at(MESSAGE, false)).unwrap()
    };
    assert_eq!(read(FLAGS).unwrap().flags, ["\\Seen"]);
    assert!(read(&format!("{FLAGS}! NO expunged\r\n")).is_none());
    assert!(read("").is_none());
}

#[test]
fn the_flags_of_a_removed_message_are_not_returned_from_the_open_inbox() {
    let mut session = session(&[
        EXAMINE,
        FETCH,
        "",
        &format!("{FETCH}* 2 EXPUNGE\r\n"),
        EXAMINE,
        "",
    ]);
    assert!(block_on(session.message(MESSAGE)).unwrap().is_some());
    assert!(
        block_on(session.state_at(MESSAGE, false))
            .unwrap()
            .is_none()
    );
}

#[test]
fn an_inbox_with_another_uidvalidity_is_opened_again() {
    const OTHER: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 2] ok\r\n";
    let mut session = session(&[OTHER, "", OTHER, FETCH]);
    let range = 0..4;
    let stream = block_on(session.start_stream_at(MESSAGE, &range));
    assert_eq!(stream.unwrap(), None);
    // The message with this UID in the other inbox is not returned.
    assert!(block_on(session.message(MESSAGE)).unwrap().is_none());
}

#[test]
fn flags_that_noop_reports_after_the_message_are_used() {
    let late = format!("{FETCH}* 2 FETCH (FLAGS (\\Seen))\r\n");
    let message = read_twice(&["", &late]).unwrap().unwrap();
    assert_eq!(message.flags, ["\\Seen"]);
}

#[test]
fn inbox_is_opened_again_if_a_message_was_removed_or_the_refresh_failed() {
    let removed = format!("{FETCH}* 2 EXPUNGE\r\n");
    for first in [
        ["", removed.as_str()],
        ["* NO Internal error occurred.\r\n", FETCH],
        ["! NO cannot refresh\r\n", FETCH],
        ["", ""],
    ] {
        let gone = read_twice(&[&first[..], &[EXAMINE, ""]].concat());
        assert!(gone.unwrap().is_none(), "{first:?}");
        let found = read_twice(&[&first[..], &[EXAMINE, FETCH]].concat());
        assert!(found.unwrap().is_some(), "{first:?}");
    }
}
