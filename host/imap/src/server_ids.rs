//! Extracts the mail server's ids of folders and messages: MAILBOXID and EMAILID (RFC 8474), and
//! Dovecot's X-GUID.
//!
//! `imap-proto` does not support these attributes and rejects some replies with these attributes. A
//! rejected reply would end the connection. Therefore this module removes the id from a STATUS or
//! FETCH reply before `imap-proto` parses the reply.

use bytes::{Buf as _, BytesMut};

const STATUS: &[u8] = b"* STATUS ";
const FETCH: &[u8] = b" FETCH (";
/// The attributes with an id as their value. The second value is `true` if the id is in
/// parentheses.
const ATTRIBUTES: [(&[u8], bool); 3] =
    [(b"X-GUID", false), (b"MAILBOXID", true), (b"EMAILID", true)];
/// Maximum length of an id, in bytes. RFC 8474, section 7, allows 255. Dovecot's ids are file names
/// if the mailbox format is Maildir.
const MAX_ID: usize = 255;

/// Removes the id from a reply and returns the id. Does not change a reply without an id.
pub(crate) fn take(reply: &mut BytesMut) -> Option<String> {
    let (id, before, after) = find_id(reply)?;
    // Move the bytes before the id, because few bytes precede the id. The bytes after the id can
    // contain a complete message.
    reply.copy_within(..before, after - before);
    reply.advance(after - before);
    Some(id)
}

/// Returns the id, and the byte offsets in `reply` at which the attribute with the id starts and
/// ends. The range includes one adjacent space.
fn find_id(reply: &[u8]) -> Option<(String, usize, usize)> {
    let mut at = first_attribute(reply)?;
    loop {
        let begin = at;
        let name = name_end(reply, at)?;
        let value = name + 1;
        let end = value_end(reply, value)?;
        let is_id = |(id, _): &&(&[u8], bool)| reply[begin..name].eq_ignore_ascii_case(id);
        if let Some((_, in_parentheses)) = ATTRIBUTES.iter().find(is_id) {
            let id = text(&reply[value..end], *in_parentheses)?;
            return Some(match reply.get(end)? {
                b' ' => (id, begin, end + 1),
                _ if reply[begin - 1] == b' ' => (id, begin - 1, end),
                _ => (id, begin, end),
            });
        }
        if *reply.get(end)? != b' ' {
            return None;
        }
        at = end + 1;
    }
}

/// Returns the offset of the first attribute, after the opening parenthesis.
fn first_attribute(reply: &[u8]) -> Option<usize> {
    if starts_with(reply, STATUS) {
        let name = value_end(reply, STATUS.len())?;
        return starts_with(&reply[name..], b" (").then_some(name + 2);
    }
    let number = reply.strip_prefix(b"* ")?;
    let digits = number.iter().take_while(|b| b.is_ascii_digit()).count();
    starts_with(&number[digits..], FETCH).then_some(2 + digits + FETCH.len())
}

/// Returns the end of an attribute's name, which is the first space outside brackets.
fn name_end(reply: &[u8], from: usize) -> Option<usize> {
    let mut in_brackets = false;
    let length = reply.get(from..)?.iter().position(|byte| {
        in_brackets = (in_brackets || *byte == b'[') && *byte != b']';
        matches!(byte, b' ' | b'\r') && !in_brackets
    })?;
    Some(from + length)
}

/// Returns the end of a value. A value is a quoted string, a literal, an atom or a list (RFC 3501,
/// section 4).
fn value_end(reply: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    let mut depth = 0_usize;
    loop {
        match reply.get(at)? {
            b'"' => at = quoted_end(reply, at)?,
            b'{' => at = literal_end(reply, at)?,
            b'(' => {
                depth += 1;
                at += 1;
                continue;
            }
            b')' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            b' ' if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let ends = |byte: &u8| matches!(byte, b' ' | b'(' | b')' | b'\r');
                let length = reply[at..].iter().position(ends)?;
                if length == 0 {
                    return None;
                }
                at += length;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Returns `true` if a FETCH reply contains lists with more than `depth` levels.
pub(crate) fn is_nested_deeper(reply: &[u8], depth: usize) -> bool {
    if !reply.get(2).is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let (mut at, mut open) = (0, 0_usize);
    while open <= depth {
        // If the end of a string is missing, this function returns `false`. `imap-proto` rejects
        // such a reply.
        let end = match reply.get(at) {
            Some(b'"') => quoted_end(reply, at),
            Some(b'{') => literal_end(reply, at),
            Some(byte) => {
                open += usize::from(*byte == b'(');
                open = open.saturating_sub(usize::from(*byte == b')'));
                Some(at + 1)
            }
            None => None,
        };
        match end {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}

fn quoted_end(reply: &[u8], from: usize) -> Option<usize> {
    let mut escaped = false;
    let length = reply[from + 1..].iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some(from + length + 2)
}

fn literal_end(reply: &[u8], from: usize) -> Option<usize> {
    let digits = reply[from + 1..].iter().position(|byte| *byte == b'}')?;
    let number = std::str::from_utf8(&reply[from + 1..from + 1 + digits]).ok()?;
    let length: usize = number.parse().ok()?;
    let begin = from + 1 + digits + b"}\r\n".len();
    begin.checked_add(length).filter(|end| *end <= reply.len())
}

/// Returns the id in a value, or `None` if the value is not a valid id.
fn text(value: &[u8], in_parentheses: bool) -> Option<String> {
    let id = if in_parentheses {
        value.strip_prefix(b"(")?.strip_suffix(b")")?
    } else {
        let quoted = value.strip_prefix(b"\"");
        quoted.map_or(Some(value), |id| id.strip_suffix(b"\""))?
    };
    let is_id = (1..=MAX_ID).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    is_id.then(|| String::from_utf8_lossy(id).into_owned())
}

fn starts_with(text: &[u8], beginning: &[u8]) -> bool {
    text.get(..beginning.len())
        .is_some_and(|text| text.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(reply: &str) -> (Option<String>, String) {
        let mut frame = BytesMut::from(reply);
        let id = take(&mut frame);
        (id, String::from_utf8(frame.to_vec()).unwrap())
    }

    #[test]
    fn an_id_is_removed_wherever_it_is() {
        let rest = "* STATUS \"a b\" (MESSAGES 3 UNSEEN 1)\r\n";
        for reply in [
            "* STATUS \"a b\" (MAILBOXID (F6352ae03) MESSAGES 3 UNSEEN 1)\r\n",
            "* STATUS \"a b\" (MESSAGES 3 mailboxid (F6352ae03) UNSEEN 1)\r\n",
            "* STATUS \"a b\" (MESSAGES 3 UNSEEN 1 MAILBOXID (F6352ae03))\r\n",
            "* STATUS \"a b\" (MESSAGES 3 UNSEEN 1 X-GUID F6352ae03)\r\n",
            "* STATUS \"a b\" (X-GUID \"F6352ae03\" MESSAGES 3 UNSEEN 1)\r\n",
        ] {
            assert_eq!(split(reply), (Some("F6352ae03".into()), rest.into()));
        }
        let rest = "* 12 FETCH (UID 5 FLAGS (\\Seen a) BODY[HEADER.FIELDS (SUBJECT TO)]<0> {20}\r\nX: (\" X-GUID wrong\r\n BODY[TEXT]<0> {0}\r\n)\r\n";
        for (place, id) in [
            ("UID 5 ", "X-GUID 1795477647.M1P2.host,S=5 "),
            ("(\\Seen a) ", "EMAILID (1795477647.M1P2.host,S=5) "),
            ("wrong\r\n ", "X-GUID 1795477647.M1P2.host,S=5 "),
        ] {
            let reply = rest.replace(place, &format!("{place}{id}"));
            let expected = (Some("1795477647.M1P2.host,S=5".into()), rest.into());
            assert_eq!(split(&reply), expected, "{reply}");
        }
        let alone = split("* 1 FETCH (X-GUID a)\r\n");
        assert_eq!(alone, (Some("a".into()), "* 1 FETCH ()\r\n".into()));
    }

    #[test]
    fn a_reply_without_an_id_is_not_changed() {
        for reply in [
            "* STATUS INBOX (MESSAGES 3)\r\n",
            "* STATUS \"MAILBOXID (\" (MESSAGES 3)\r\n",
            "* STATUS \"MAILBOXID (x)\" (MESSAGES 3)\r\n",
            "* STATUS \"a\\\"MAILBOXID (x)\" (MESSAGES 3)\r\n",
            "* STATUS {13}\r\nMAILBOXID (x) (MESSAGES 3)\r\n",
            "* STATUS {99999999999999999999}\r\nMAILBOXID (x) (MESSAGES 3)\r\n",
            "* STATUS INBOX (MAILBOXID () MESSAGES 3)\r\n",
            "* STATUS INBOX (MAILBOXID (a b) MESSAGES 3)\r\n",
            "* LIST () \"/\" \"MAILBOXID (x)\"\r\n",
            "* 1 FETCH (UID 1 BODY[] {9}\r\nX-GUID ab)\r\n",
            "* 1 FETCH (UID 1 FLAGS (X-GUID a))\r\n",
            "* 1 FETCH (UID 1 BODY[HEADER.FIELDS (A)] NIL)\r\n",
            "* 1 FETCH (X-GUID)\r\n",
            "* 1 FETCH (X-GUID )\r\n",
            "* 1 FETCH (((\r\n",
            "* FETCH (X-GUID a)\r\n",
            "* STATUS ",
            "* 1 FETCH (",
            "",
        ] {
            assert_eq!(split(reply), (None, reply.into()));
        }
    }

    #[test]
    fn a_folder_may_have_the_name_of_an_attribute() {
        let (id, rest) = split("* STATUS \"MAILBOXID (x)\" (MESSAGES 3 MAILBOXID (y))\r\n");
        assert_eq!(id.unwrap(), "y");
        assert_eq!(rest, "* STATUS \"MAILBOXID (x)\" (MESSAGES 3)\r\n");
    }
}
