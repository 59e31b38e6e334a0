//! Writes JSON objects with texts that stay in the host.

use serde::Serialize;

use super::{cannot_serialize, serialize};
use crate::bindings::handles::blobs;
use crate::capability::Blob;
use crate::failure::Failure;

/// JSON in the memory of the module, and the texts in the host.
#[derive(Default)]
pub(super) struct Json {
    pub(super) bytes: Vec<u8>,
    pub(super) texts: Vec<(u32, blobs::Blob)>,
}

impl Json {
    /// Appends an object with its texts.
    pub(super) fn append<T: Serialize>(
        &mut self,
        value: &T,
        texts: impl IntoIterator<Item = (&'static str, Blob)>,
    ) -> Result<(), Failure> {
        let start = self.bytes.len();
        self.append_open(value)?;
        for (name, text) in texts {
            self.append_name(name, start)?;
            match text {
                Blob::Bytes(text) => {
                    let text = serialize(&String::from_utf8_lossy(&text))?;
                    self.bytes.extend(text);
                }
                Blob::Host(text) => {
                    let offset = u32::try_from(self.bytes.len());
                    self.texts
                        .push((offset.map_err(|_| cannot_serialize())?, text));
                }
            }
        }
        self.bytes.push(b'}');
        Ok(())
    }

    /// Appends an object whose last member is an object with its texts.
    pub(super) fn append_nested<T: Serialize>(
        &mut self,
        value: &impl Serialize,
        name: &str,
        (nested, texts): (&T, impl IntoIterator<Item = (&'static str, Blob)>),
    ) -> Result<(), Failure> {
        self.begin_member(value, name)?;
        self.append(nested, texts)?;
        self.bytes.push(b'}');
        Ok(())
    }

    /// Appends an object without its end, and the name of its last member.
    pub(super) fn begin_member(
        &mut self,
        value: &impl Serialize,
        name: &str,
    ) -> Result<(), Failure> {
        let start = self.bytes.len();
        self.append_open(value)?;
        self.append_name(name, start)
    }

    fn append_open(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let mut object = serialize(value)?;
        if object.pop_if(|last| *last == b'}').is_none() {
            return Err(cannot_serialize());
        }
        self.bytes.extend(object);
        Ok(())
    }

    /// Appends the name of a member of the object that begins at `start`.
    fn append_name(&mut self, name: &str, start: usize) -> Result<(), Failure> {
        if self.bytes.len() > start + 1 {
            self.bytes.push(b',');
        }
        self.bytes.extend(serialize(name)?);
        self.bytes.push(b':');
        Ok(())
    }
}
