use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use latchmail_bindings::latchmail::host::mailbox::RawMessage;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, BlobSource, ByteStream, HostError};
use wasmtime::component::Resource;

use super::*;

type Outcome<T> = Result<T, HostError<Error>>;

fn recording() -> Recording {
    Recording::new(Ambient::new().unwrap(), Charge::new(Pool::default()))
}

fn key(function: &'static str, argument: &str) -> Key {
    Key::new(function, &argument)
}

fn record(recording: &mut Recording, key: Key, result: &Outcome<u32>) {
    recording.record::<Plain, _>(key, result, &mut ResourceTable::new());
}

fn replay(recording: Recording) -> Replay {
    let calls = Arc::new(recording.finish().unwrap());
    let ambient = calls.ambient().clone();
    Replay::new(&calls, ambient)
}

fn call(replay: &mut Replay, key: Key) -> Outcome<u32> {
    replay.replay::<Plain, _>(key, &mut ResourceTable::new())
}

#[test]
fn calls_have_their_recorded_results_in_any_order() {
    let mut recording = recording();
    record(&mut recording, key("store.get", "a"), &Ok(1));
    record(
        &mut recording,
        key("store.get", "b"),
        &Err(Error::NotFound.into()),
    );
    record(&mut recording, key("store.get", "a"), &Ok(2));
    let mut replay = replay(recording);
    let missing = call(&mut replay, key("store.get", "b"));
    assert!(matches!(missing, Err(HostError::Guest(Error::NotFound))));
    assert_eq!(call(&mut replay, key("store.get", "a")).unwrap(), 2);
    assert_eq!(call(&mut replay, key("store.get", "a")).unwrap(), 1);
    assert_eq!(replay.finish(), (None, Vec::new()));
}

#[test]
fn other_calls_are_missing_and_calls_that_are_not_repeated_are_left() {
    let recorded = || {
        let mut recording = recording();
        record(&mut recording, key("store.get", "a"), &Ok(1));
        record(&mut recording, key("mailbox.get_quota", ""), &Ok(2));
        replay(recording)
    };
    for (function, argument, is_known) in [
        ("store.get", "b", true),
        ("mailbox.list_folders", "", false),
    ] {
        let mut replay = recorded();
        let ended = call(&mut replay, key(function, argument));
        assert!(matches!(ended, Err(HostError::Trap(_))));
        let missing = MissingCall {
            function: function.replace('_', "-"),
            is_known,
        };
        assert_eq!(replay.finish().0, Some(missing));
    }
    let mut replay = recorded();
    assert_eq!(call(&mut replay, key("store.get", "a")).unwrap(), 1);
    assert_eq!(
        replay.finish(),
        (None, vec!["mailbox.get-quota".to_owned()])
    );
}

#[test]
fn a_recording_with_an_ended_call_or_too_many_calls_is_not_used() {
    let mut ended = recording();
    let trap = Err(HostError::Trap(wasmtime::Error::msg("ended")));
    record(&mut ended, key("store.get", "a"), &trap);
    assert!(ended.finish().is_none());

    let mut long = recording();
    for _ in 0..=MAX_CALLS {
        record(&mut long, key("store.get", "a"), &Ok(1));
    }
    assert!(long.finish().is_none());
}

struct Letters;

impl BlobSource for Letters {
    fn open(&self) -> ByteStream {
        let chunks = ["ab", "cd", "ef"].map(|chunk| Ok(chunk.into()));
        stream::iter(chunks).boxed()
    }
}

fn with_content(content: Resource<Blob>) -> RawMessage {
    RawMessage {
        subject: "Letters".into(),
        content,
        version: "1".into(),
    }
}

fn read(blob: &mut Blob, offset: u64, length: usize) -> Option<bytes::Bytes> {
    blob.read(offset, length).now_or_never().unwrap().ok()
}

#[test]
fn a_replayed_blob_has_the_bytes_that_were_read() {
    let (mut recording, mut table) = (recording(), ResourceTable::new());
    let content = table.push(Blob::from_source(6, Arc::new(Letters))).unwrap();
    let rep = content.rep();
    let result: Outcome<RawMessage> = Ok(with_content(content));
    recording.record::<WithHandles, _>(key("mailbox.get_raw_message", "1"), &result, &mut table);
    let handle = Resource::new_own(rep);
    let mut blob: Blob = table.delete(handle).unwrap();
    assert_eq!(read(&mut blob, 0, 3).unwrap(), "abc");
    let calls = Arc::new(recording.finish().unwrap());
    // The host reads the body of the response after the recording.
    let all: Vec<_> = blob.into_stream().collect().now_or_never().unwrap();
    assert_eq!(all.len(), 3);

    for _ in 0..2 {
        let mut replay = Replay::new(&calls, calls.ambient().clone());
        let mut table = ResourceTable::new();
        let key = key("mailbox.get_raw_message", "1");
        let result: Outcome<RawMessage> = replay.replay::<WithHandles, _>(key, &mut table);
        let message = result.unwrap();
        assert_eq!(message.subject, "Letters");
        let blob = table.get_mut(&message.content).unwrap();
        assert_eq!(blob.size(), 6);
        assert_eq!(read(blob, 1, 3).unwrap(), "bcd");
        assert!(read(blob, 4, 1).is_none());
    }
}

#[test]
fn a_blob_in_memory_is_recorded_with_its_bytes() {
    let (mut recording, mut table) = (recording(), ResourceTable::new());
    let content = table.push(Blob::new("text".into())).unwrap();
    let key = key("mailbox.get_raw_message", "1");
    let result: Outcome<RawMessage> = Ok(with_content(content));
    recording.record::<WithHandles, _>(key, &result, &mut table);
    let mut replay = replay(recording);
    let mut table = ResourceTable::new();
    let result: Outcome<RawMessage> = replay.replay::<WithHandles, _>(key, &mut table);
    let blob = table.get(&result.unwrap().content).unwrap();
    assert_eq!(blob.in_memory().unwrap(), "text");
}
