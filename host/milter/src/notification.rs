//! The copy of a delivery status notification while the milter receives it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of bytes of a notification that are read. The returned message is at the end of a
/// notification and is not needed.
const MAX_SIZE: usize = 512 * 1024;

/// The beginning of a message that can be a notification.
#[derive(Debug)]
pub(crate) struct Notification {
    text: Vec<u8>,
    permits: Option<OwnedSemaphorePermit>,
    out_of_memory: bool,
}

impl Notification {
    /// Returns `None` if the value of Content-Type is not the one of a notification.
    pub(crate) fn begin(content_type: &[u8]) -> Option<Self> {
        let kind = content_type
            .trim_ascii_start()
            .get(.."multipart/report".len())?;
        kind.eq_ignore_ascii_case(b"multipart/report")
            .then(|| Self {
                text: [b"Content-Type:", content_type, b"\n\n"].concat(),
                permits: None,
                out_of_memory: false,
            })
    }

    /// Returns the header field Content-Type and the beginning of the body.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns `true` if there was no memory for a part of the body.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// Adds a piece of the body. `memory` has one permit for each KiB of memory.
    pub(crate) fn add_body(&mut self, piece: &[u8], memory: &Arc<Semaphore>) {
        let piece = piece
            .get(..MAX_SIZE.saturating_sub(self.text.len()))
            .unwrap_or(piece);
        if piece.is_empty() || self.out_of_memory {
            return;
        }
        let needed = u32::try_from(piece.len().div_ceil(1024)).unwrap_or(u32::MAX);
        match Arc::clone(memory).try_acquire_many_owned(needed) {
            Ok(permit) => {
                match &mut self.permits {
                    Some(permits) => permits.merge(permit),
                    None => self.permits = Some(permit),
                }
                self.text.extend_from_slice(piece);
            }
            Err(_) => self.out_of_memory = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_of_a_notification_is_limited() {
        let memory = Arc::new(Semaphore::new(1000));
        assert!(Notification::begin(b" text/plain").is_none());
        assert!(Notification::begin(b" multi").is_none());
        let mut notification = Notification::begin(b" Multipart/Report; boundary=b").unwrap();
        for _ in 0..20 {
            notification.add_body(&vec![b'x'; 60 * 1024], &memory);
        }
        assert_eq!(notification.text.len(), MAX_SIZE);
        let mut other = Notification::begin(b" multipart/report; boundary=b").unwrap();
        for _ in 0..20 {
            other.add_body(&vec![b'x'; 60 * 1024], &memory);
        }
        assert!(other.out_of_memory && memory.available_permits() > 0);
        drop((notification, other));
        assert_eq!(memory.available_permits(), 1000);
    }
}
