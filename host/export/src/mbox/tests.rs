use proptest::prelude::*;

use super::*;

/// Writes messages in pieces of this size, and returns the file with the facts about each message.
fn written(messages: &[Vec<u8>], piece: usize) -> (Vec<u8>, Vec<Scan>) {
    let (mut file, mut scans) = (Vec::new(), Vec::new());
    for message in messages {
        let mut scan = Scan::default();
        message.chunks(piece).for_each(|piece| scan.add(piece));
        let date = Some(Timestamp::from_millis(1_700_000_000_000));
        let mut writer =
            MessageWriter::begin(&mut file, date, scan.has_network_line_ends()).unwrap();
        for piece in message.chunks(piece) {
            writer.write(piece).unwrap();
        }
        writer.end().unwrap();
        scans.push(scan);
    }
    (file, scans)
}

/// Reads the messages of a file as an import reads them.
fn read(file: &[u8], scans: &[Scan]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(file);
    let mut messages = Vec::new();
    while let Some(message) = reader.read_message().unwrap() {
        let scan = &scans[messages.len()];
        let date = Timestamp::from_millis(1_700_000_000_000);
        assert_eq!(message.date, Some(date));
        messages.push(restore(
            message.bytes.unwrap(),
            scan.has_network_line_ends(),
            scan.ends_with_line_feed(),
        ));
    }
    messages
}

#[test]
fn messages_have_the_form_of_mboxrd() {
    let message = b"Subject: a\r\n\r\nFrom me\r\n>From you\r\n> From\r\nFrom".to_vec();
    let (file, scans) = written(&[message.clone(), b"B: c\r\n".to_vec()], 3);
    let expected = "From MAILER-DAEMON Tue Nov 14 22:13:20 2023\n\
        Subject: a\n\n>From me\n>>From you\n> From\nFrom\n\n\
        From MAILER-DAEMON Tue Nov 14 22:13:20 2023\nB: c\n\n";
    assert_eq!(String::from_utf8(file.clone()).unwrap(), expected);
    assert_eq!(read(&file, &scans), [message, b"B: c\r\n".to_vec()]);
}

#[test]
fn the_files_of_other_programs_are_read() {
    let file = b"From a b@c Tue Nov 14 22:13:20 2023\r\nA: b\r\n\r\nFrom c\r\n\r\nFrom d\nE: f\n";
    let mut reader = Reader::new(&file[..]);
    let first = reader.read_message().unwrap().unwrap();
    assert_eq!(first.date, Some(Timestamp::from_millis(1_700_000_000_000)));
    assert_eq!(first.bytes.unwrap(), b"A: b\r\n");
    let second = reader.read_message().unwrap().unwrap();
    assert_eq!((second.date, second.bytes.unwrap()), (None, b"".to_vec()));
    let third = reader.read_message().unwrap().unwrap();
    assert_eq!(third.bytes.unwrap(), b"E: f\n");
    assert_eq!(reader.read_message().unwrap(), None);
    assert!(Reader::new(&b"A: b\n"[..]).read_message().is_err());
    assert_eq!(Reader::new(&b""[..]).read_message().unwrap(), None);
}

/// Pieces of which the bytes of messages consist, so that all special sequences are frequent.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "From ",
        "Fro",
        ">",
        "\r\n",
        "\r",
        "\n",
        "a",
        "From x\r\n",
        "\r\n\r\n",
        " ",
    ]);
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn each_message_is_restored(
        messages in prop::collection::vec(message(), 0..5),
        piece in 1_usize..8,
    ) {
        let (file, scans) = written(&messages, piece);
        prop_assert_eq!(read(&file, &scans), messages);
    }
}
