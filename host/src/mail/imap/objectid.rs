//! OBJECTID (RFC 8474), as far as STATUS tells of it: a folder's MAILBOXID, the same under every name.
//!
//! `imap-proto` does not know it, and a reply that it cannot read would end the connection: the id is taken out before the reply is read.

use bytes::Bytes;

const STATUS: &[u8] = b"* STATUS ";
const MAILBOX_ID: &[u8] = b"MAILBOXID (";
/// Bytes of an id (RFC 8474, section 7).
const LONGEST: usize = 255;

/// The MAILBOXID of a STATUS reply, taken out of it. None where there is none, and none is taken out.
pub(super) fn taken(frame: &mut Bytes) -> Option<String> {
    if !starts_with(frame, STATUS) {
        return None;
    }
    // Behind the folder's name, which may say anything.
    let list = STATUS.len() + name_length(&frame[STATUS.len()..])?;
    let at = (list..frame.len()).find(|at| starts_with(&frame[*at..], MAILBOX_ID))?;
    let begins = at + MAILBOX_ID.len();
    let ends = begins + frame[begins..].iter().position(|byte| *byte == b')')?;
    let id = std::str::from_utf8(&frame[begins..ends]).ok()?.to_owned();
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=LONGEST).contains(&id.len()) || !id.bytes().all(is_id) {
        return None;
    }
    let after = ends + 1;
    // One blank goes with it: the one before, or where it is the first of the list the one after.
    let (before, after) = match (frame[at - 1], frame.get(after)) {
        (b' ', _) => (at - 1, after),
        (_, Some(b' ')) => (at, after + 1),
        _ => (at, after),
    };
    *frame = [&frame[..before], &frame[after..]].concat().into();
    Some(id)
}

/// How long the string is that a reply goes on with: quoted, a literal or an atom (RFC 3501, section 4.3).
fn name_length(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' => {
            let mut escaped = false;
            let end = rest[1..].iter().position(|byte| {
                let ends = *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                ends
            })?;
            Some(end + 2)
        }
        b'{' => {
            let end = rest.iter().position(|byte| *byte == b'}')?;
            let length: usize = std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()?;
            (end + 3)
                .checked_add(length)
                .filter(|end| *end <= rest.len())
        }
        _ => rest.iter().position(|byte| *byte == b' '),
    }
}

fn starts_with(text: &[u8], beginning: &[u8]) -> bool {
    text.get(..beginning.len())
        .is_some_and(|text| text.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(reply: &'static str) -> (Option<String>, String) {
        let mut frame = Bytes::from_static(reply.as_bytes());
        let id = taken(&mut frame);
        (id, String::from_utf8(frame.to_vec()).unwrap())
    }

    #[test]
    fn an_id_is_taken_out_wherever_it_stands() {
        let rest = "* STATUS \"a b\" (MESSAGES 3 UNSEEN 1)\r\n";
        for told in [
            "* STATUS \"a b\" (MAILBOXID (F6352ae03) MESSAGES 3 UNSEEN 1)\r\n",
            "* STATUS \"a b\" (MESSAGES 3 mailboxid (F6352ae03) UNSEEN 1)\r\n",
            "* STATUS \"a b\" (MESSAGES 3 UNSEEN 1 MAILBOXID (F6352ae03))\r\n",
        ] {
            assert_eq!(split(told), (Some("F6352ae03".into()), rest.into()));
        }
    }

    #[test]
    fn what_has_none_is_left_as_it_is() {
        for told in [
            "* STATUS INBOX (MESSAGES 3)\r\n",
            "* STATUS \"MAILBOXID (\" (MESSAGES 3)\r\n",
            "* STATUS \"MAILBOXID (x)\" (MESSAGES 3)\r\n",
            "* STATUS \"a\\\"MAILBOXID (x)\" (MESSAGES 3)\r\n",
            "* STATUS {13}\r\nMAILBOXID (x) (MESSAGES 3)\r\n",
            "* STATUS INBOX (MAILBOXID () MESSAGES 3)\r\n",
            "* STATUS INBOX (MAILBOXID (a b) MESSAGES 3)\r\n",
            "* LIST () \"/\" \"MAILBOXID (x)\"\r\n",
            "* STATUS ",
        ] {
            assert_eq!(split(told), (None, told.into()));
        }
    }

    #[test]
    fn a_folder_may_be_called_so() {
        let (id, rest) = split("* STATUS \"MAILBOXID (x)\" (MESSAGES 3 MAILBOXID (y))\r\n");
        assert_eq!(id.unwrap(), "y");
        assert_eq!(rest, "* STATUS \"MAILBOXID (x)\" (MESSAGES 3)\r\n");
    }
}
