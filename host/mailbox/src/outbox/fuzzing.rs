//! Checks properties of outbound messages for any input. See [`latchmail_core::fuzzing`].

use bytes::Bytes;
use latchmail_core::caller::MailCredential;
use latchmail_core::clock::Timestamp;
use latchmail_mime::fuzzing::read;
use secrecy::SecretString;

use super::attached_file::{AttachedFile, File, Source};
use super::draft::Draft;
use super::envelope::{EnvelopeAddress, Recipient, Sender};
use crate::access::Access;

/// Checks that each accepted address is on one line, without brackets and spaces outside quotes. A
/// mail server must read the written address as the same address.
///
/// # Panics
/// Panics if the check fails.
pub fn recipient(address: &str) {
    let Some(parsed) = EnvelopeAddress::parse(address) else {
        return;
    };
    let text = parsed.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(parsed.domain().is_ascii(), "{text:?}");
    assert_eq!(EnvelopeAddress::parse(&text), Some(parsed), "{address:?}");
}

/// Returns a sender without a valid credential.
pub(super) fn sender() -> Sender {
    let Some(address) = EnvelopeAddress::parse("ada@example.org") else {
        unreachable!("the address is valid")
    };
    let secret = SecretString::default();
    Sender {
        access: Access {
            account: "ada".into(),
            credential: MailCredential::app_password("id".into(), address.to_string(), secret),
            member: None,
            grant: None,
            is_person: true,
        },
        address,
    }
}

/// Returns a file whose bytes are in memory.
pub(super) fn attached(file: &File) -> AttachedFile {
    let Source::Bytes(content) = &file.source else {
        unreachable!("the bytes are in memory")
    };
    AttachedFile {
        filename: file.filename.clone().unwrap_or_default(),
        content_type: file.content_type.clone().unwrap_or_default(),
        content_id: file.content_id.clone(),
        inline: file.inline,
        content: content.clone(),
    }
}

/// Writes a message and checks its lines. Checks that client input creates no header field, and
/// that a reader gets the client's values.
///
/// # Panics
/// Panics if a check fails.
pub fn draft(name: &str, subject: &str, filename: &str, text: &str, content: &[u8]) {
    let Ok(recipient) = Recipient::new(name.into(), "bo@example.net") else {
        return;
    };
    let draft = Draft {
        from: sender(),
        from_name: String::new(),
        to: vec![recipient],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: subject.into(),
        text: Some(text.into()),
        html: Some(text.into()),
        files: vec![File {
            source: Source::Bytes(Bytes::copy_from_slice(content)),
            filename: Some(filename.into()),
            content_type: Some("application/x-any".into()),
            content_id: None,
            inline: false,
        }],
        headers: Vec::new(),
        in_reply_to: None,
        references: Vec::new(),
        original: None,
    };
    if draft.envelope().is_err() {
        return;
    }
    let files: Vec<_> = draft.files.iter().map(attached).collect();
    let Ok(written) = draft.write(&files, "<id@example.org>", Timestamp::from_millis(0)) else {
        return;
    };
    for line in written.split_inclusive(|byte| *byte == b'\n') {
        assert!(line.len() <= 1000, "a line of {} bytes", line.len());
        let text = line.strip_suffix(b"\r\n");
        let text = text.unwrap_or_else(|| unreachable!("a bare line feed in {line:?}"));
        assert!(!text.contains(&b'\r') && !text.contains(&0), "{line:?}");
    }
    let end = memchr::memmem::find(&written, b"\r\n\r\n").unwrap_or(written.len());
    let fields = written[..end]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b" ") && !line.starts_with(b"\t"))
        .map(|line| String::from_utf8_lossy(line.split(|b| *b == b':').next().unwrap_or(line)));
    let fields: Vec<_> = fields.collect();
    let expected = [
        "Date",
        "From",
        "To",
        "Subject",
        "Message-ID",
        "MIME-Version",
        "Content-Type",
    ];
    assert_eq!(fields.len(), expected.len(), "{fields:?}");
    assert!(
        expected.iter().all(|name| fields.iter().any(|f| f == name)),
        "{fields:?}"
    );

    let found = read(&written, true);
    // A reader removes a byte order mark at the beginning of a decoded text.
    let without_mark = |text: &str| text.replace('\u{feff}', "");
    let words = |text: &str| {
        let text = without_mark(text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words(&found.subject), words(subject));
    let [to] = &found.to[..] else {
        unreachable!("recipients {:?}", found.to);
    };
    assert_eq!(to.address, "bo@example.net");
    // Readers ignore a name that consists only of angle brackets, because such a name looks like a
    // part of a malformed address.
    let is_brackets = without_mark(name)
        .trim()
        .chars()
        .all(|c| matches!(c, '<' | '>'));
    let expected_name = if is_brackets { "" } else { name };
    assert_eq!(words(&to.name), words(expected_name));
    let lines = |text: &str| {
        let text = without_mark(text).replace("\r\n", "\n");
        text.trim_end_matches('\n').to_owned()
    };
    if !text.contains(|c: char| c.is_control() && c != '\n') {
        for part in [found.text, found.html] {
            assert_eq!(lines(&part.unwrap_or_default()), lines(text));
        }
    }
    let [(_, media, bytes)] = &found.files[..] else {
        unreachable!("files {:?}", found.files);
    };
    assert_eq!((media.as_str(), &bytes[..]), ("application/x-any", content));
}
