//! Results of host functions that can be recorded and replayed.

use std::any::Any;
use std::fmt::Debug;

use futures_util::stream::{self, StreamExt as _};
use latchmail_bindings::latchmail::host::drafts::{DraftPage, StoredDraft};
use latchmail_bindings::latchmail::host::mailbox::{
    AttachmentContent, DetailWithBlobs, RawMessage,
};
use latchmail_bindings::latchmail::host::outbox::{Draft, File, FileSource, UploadedContent};
use latchmail_bindings::{Blob, EventStream, HostError};
use wasmtime::component::{Resource, ResourceTable};

use super::Recording;
use super::blobs::StoredBlob;

/// The result of a host function. `M` is [`Plain`] or [`WithHandles`].
pub(in crate::api) trait Recordable<M>: Sized {
    /// Returns a copy for the recording. Returns `None` if the result ends the call of the guest,
    /// or if the recording is too large.
    fn to_stored(
        &self,
        recording: &mut Recording,
        table: &mut ResourceTable,
    ) -> Option<Box<dyn Any + Send + Sync>>;

    /// Returns the result that was recorded. The handles of the result are in `table`.
    fn from_stored(stored: &(dyn Any + Send + Sync), table: &mut ResourceTable) -> Self;

    /// Returns a result that ends the call of the guest.
    fn trap(error: wasmtime::Error) -> Self;
}

/// Results without handles.
pub(in crate::api) struct Plain;

/// Results that contain handles of blobs or of streams.
pub(in crate::api) struct WithHandles;

fn wrong_type() -> wasmtime::Error {
    wasmtime::Error::msg("the recorded result has another type")
}

impl<T, E> Recordable<Plain> for Result<T, HostError<E>>
where
    T: Clone + Debug + Send + Sync + 'static,
    E: Clone + Debug + Send + Sync + 'static,
{
    fn to_stored(
        &self,
        recording: &mut Recording,
        _: &mut ResourceTable,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let result: Result<T, E> = match self {
            Ok(value) if recording.charge.take_copy(value) => Ok(value.clone()),
            Err(HostError::Guest(error)) => Err(error.clone()),
            Ok(_) | Err(HostError::Trap(_)) => return None,
        };
        Some(Box::new(result))
    }

    fn from_stored(stored: &(dyn Any + Send + Sync), _: &mut ResourceTable) -> Self {
        match stored.downcast_ref::<Result<T, E>>() {
            Some(result) => result.clone().map_err(HostError::Guest),
            None => Err(HostError::Trap(wrong_type())),
        }
    }

    fn trap(error: wasmtime::Error) -> Self {
        Err(HostError::Trap(error))
    }
}

impl<T> Recordable<Plain> for wasmtime::Result<T>
where
    T: Clone + Debug + Send + Sync + 'static,
{
    fn to_stored(
        &self,
        recording: &mut Recording,
        _: &mut ResourceTable,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let value = self.as_ref().ok()?;
        recording
            .charge
            .take_copy(value)
            .then(|| Box::new(value.clone()) as Box<dyn Any + Send + Sync>)
    }

    fn from_stored(stored: &(dyn Any + Send + Sync), _: &mut ResourceTable) -> Self {
        stored.downcast_ref::<T>().cloned().ok_or_else(wrong_type)
    }

    fn trap(error: wasmtime::Error) -> Self {
        Err(error)
    }
}

/// A recorded result with handles. A handle in `result` is the index of a blob in `blobs`.
struct StoredHandles<T, E> {
    result: Result<T, E>,
    blobs: Vec<StoredBlob>,
}

impl<T, E> Recordable<WithHandles> for Result<T, HostError<E>>
where
    T: Handles + Debug + Send + Sync + 'static,
    E: Clone + Debug + Send + Sync + 'static,
{
    fn to_stored(
        &self,
        recording: &mut Recording,
        table: &mut ResourceTable,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let mut blobs = Vec::new();
        let result: Result<T, E> = match self {
            Ok(value) => {
                if !recording.charge.take_copy(value) {
                    return None;
                }
                Ok(value.copy(&mut Copying::Record {
                    recording,
                    table,
                    blobs: &mut blobs,
                })?)
            }
            Err(HostError::Guest(error)) => Err(error.clone()),
            Err(HostError::Trap(_)) => return None,
        };
        Some(Box::new(StoredHandles { result, blobs }))
    }

    fn from_stored(stored: &(dyn Any + Send + Sync), table: &mut ResourceTable) -> Self {
        let Some(stored) = stored.downcast_ref::<StoredHandles<T, E>>() else {
            return Err(HostError::Trap(wrong_type()));
        };
        match &stored.result {
            Ok(value) => {
                let blobs = &stored.blobs;
                let copied = value.copy(&mut Copying::Restore { table, blobs });
                let full = || wasmtime::Error::msg("the module has too many handles");
                copied.ok_or_else(|| HostError::Trap(full()))
            }
            Err(error) => Err(HostError::Guest(error.clone())),
        }
    }

    fn trap(error: wasmtime::Error) -> Self {
        Err(HostError::Trap(error))
    }
}

/// The direction of a copy.
pub(in crate::api) enum Copying<'a> {
    /// From a sandbox to a recording.
    Record {
        recording: &'a mut Recording,
        table: &'a mut ResourceTable,
        blobs: &'a mut Vec<StoredBlob>,
    },
    /// From a recording to a sandbox.
    Restore {
        table: &'a mut ResourceTable,
        blobs: &'a [StoredBlob],
    },
}

impl Copying<'_> {
    /// Copies a handle. Returns `None` if the recording is too large, or if the sandbox has too
    /// many handles.
    fn blob(&mut self, handle: &Resource<Blob>) -> Option<Resource<Blob>> {
        match self {
            Self::Record {
                recording,
                table,
                blobs,
            } => {
                let index = u32::try_from(blobs.len()).ok()?;
                blobs.push(StoredBlob::record(handle, recording, table)?);
                Some(Resource::new_own(index))
            }
            Self::Restore { table, blobs } => {
                let index = usize::try_from(handle.rep()).ok()?;
                table.push(blobs.get(index)?.to_blob()).ok()
            }
        }
    }
}

/// A value with handles of blobs or of streams.
pub(in crate::api) trait Handles: Sized {
    /// Returns a copy with new handles, or `None` as [`Copying::blob`].
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self>;
}

impl<T: Handles> Handles for Vec<T> {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        self.iter().map(|value| value.copy(copying)).collect()
    }
}

impl<T: Handles> Handles for Option<T> {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        match self {
            None => Some(None),
            Some(value) => value.copy(copying).map(Some),
        }
    }
}

impl Handles for Resource<Blob> {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        copying.blob(self)
    }
}

/// The events of a stream are not recorded. A replayed stream is empty.
impl Handles for Resource<EventStream> {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        match copying {
            Copying::Record { .. } => Some(Self::new_own(0)),
            Copying::Restore { table, .. } => {
                table.push(EventStream::new(stream::empty().boxed())).ok()
            }
        }
    }
}

impl Handles for DetailWithBlobs {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            detail: self.detail.clone(),
            text: self.text.copy(copying)?,
            html: self.html.copy(copying)?,
            new_text: self.new_text.copy(copying)?,
        })
    }
}

impl Handles for AttachmentContent {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            attachment: self.attachment.clone(),
            content: self.content.copy(copying)?,
            version: self.version.clone(),
        })
    }
}

impl Handles for RawMessage {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            subject: self.subject.clone(),
            content: self.content.copy(copying)?,
            version: self.version.clone(),
        })
    }
}

impl Handles for UploadedContent {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            filename: self.filename.clone(),
            content_type: self.content_type.clone(),
            content: self.content.copy(copying)?,
        })
    }
}

impl Handles for StoredDraft {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            id: self.id.clone(),
            version: self.version.clone(),
            uid: self.uid,
            from: self.from.clone(),
            to: self.to.clone(),
            cc: self.cc.clone(),
            bcc: self.bcc.clone(),
            reply_to: self.reply_to.clone(),
            subject: self.subject.clone(),
            text: self.text.copy(copying)?,
            html: self.html.copy(copying)?,
            in_reply_to: self.in_reply_to.clone(),
            references: self.references.clone(),
            headers: self.headers.clone(),
            attachments: self.attachments.clone(),
            truncated: self.truncated,
        })
    }
}

impl Handles for DraftPage {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            drafts: self.drafts.copy(copying)?,
            total: self.total,
        })
    }
}

impl Handles for Draft {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            from: self.from.clone(),
            to: self.to.clone(),
            cc: self.cc.clone(),
            bcc: self.bcc.clone(),
            reply_to: self.reply_to.clone(),
            subject: self.subject.clone(),
            text: self.text.clone(),
            html: self.html.clone(),
            in_reply_to: self.in_reply_to.clone(),
            references: self.references.clone(),
            headers: self.headers.clone(),
            files: self.files.copy(copying)?,
            original: self.original.clone(),
        })
    }
}

impl Handles for File {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(Self {
            source: self.source.copy(copying)?,
            filename: self.filename.clone(),
            content_type: self.content_type.clone(),
            content_id: self.content_id.clone(),
            inline: self.inline,
        })
    }
}

impl Handles for FileSource {
    fn copy(&self, copying: &mut Copying<'_>) -> Option<Self> {
        Some(match self {
            Self::Blob(blob) => Self::Blob(blob.copy(copying)?),
            Self::Upload(id) => Self::Upload(id.clone()),
            Self::Part(part) => Self::Part(*part),
            Self::Message(uid) => Self::Message(*uid),
        })
    }
}
