//! Reads the positions, UIDs and flags of one page of messages in a folder.

use imap_proto::Status;

use super::Error;
use super::fetch::{self, Fetched};
use super::open::{OpenMode, OpenResult};
use super::selected::Opened;
use super::session::Session;

/// The newest message of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTop {
    /// The page skips this number of messages, from the newest.
    Offset(u32),
    /// The message at this position, or the newest message if the folder has fewer messages.
    Position(u32),
}

impl Session {
    /// Returns the UIDs and flags of at most `limit` messages of the folder `path`, in ascending
    /// order. Returns `None` if the folder does not exist.
    ///
    /// Needs one round trip if the folder is already open and its number of messages has not
    /// changed. Otherwise needs two round trips.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn page(
        &mut self,
        path: &str,
        top: PageTop,
        limit: u32,
    ) -> Result<Option<(Opened, Vec<Fetched>)>, Error> {
        let Some(mut name) = super::utf7::name(path) else {
            return Ok(None);
        };
        let (mut retried, mut may_guess) = (false, true);
        for _ in 0..3 {
            let guess = self
                .connection
                .selected()
                .filter(|selected| may_guess && selected.name == name)
                .map(|selected| selected.exists);
            let guessed = guess.and_then(|total| range(total, top, limit));
            let OpenResult {
                opened,
                outcome,
                collected,
                refused,
                ..
            } = self
                .open(
                    OpenMode::Examine,
                    &name,
                    guessed.map(fetch::flags).as_deref(),
                )
                .await?;
            match refused {
                None => {}
                Some(no) if !retried => match self.resolve_refused(path, &no).await? {
                    Some(other) => {
                        (name, retried) = (other, true);
                        continue;
                    }
                    None => return Ok(None),
                },
                Some(no) => return Err(Error::No(no.text)),
            }
            let Some(wanted) = range(opened.exists, top, limit) else {
                return Ok(Some((opened, Vec::new())));
            };
            let (outcome, collected) = if guessed == Some(wanted) {
                (outcome, collected)
            } else {
                let (outcome, collected) =
                    self.selected_folder()?.fetch(&fetch::flags(wanted)).await?;
                (Some(outcome), collected)
            };
            let mut fetched = collected.with_flags();
            fetched.retain(|message| (wanted.0..=wanted.1).contains(&message.seq));
            let whole = fetched.len() as u64 == u64::from(wanted.1 - wanted.0) + 1;
            match outcome.map(|o| o.status) {
                Some(Status::Ok) if whole => return Ok(Some((opened, fetched))),
                Some(Status::Ok | Status::No) => {
                    // Another session expunged messages between EXAMINE and FETCH (RFC 5530,
                    // EXPUNGEISSUED). Therefore the next attempt does not guess the positions
                    // before EXAMINE.
                    may_guess = false;
                }
                _ => return Err(Error::Protocol("the server rejected FETCH with BAD".into())),
            }
        }
        Err(Error::Unavailable(
            "the folder changed during every attempt to read it".into(),
        ))
    }
}

/// Returns the first and the last position of a page with at most `limit` of `total` messages.
/// Returns `None` if the page is empty.
fn range(total: u32, top: PageTop, limit: u32) -> Option<(u32, u32)> {
    let high = match top {
        PageTop::Offset(offset) => total.saturating_sub(offset),
        PageTop::Position(position) => total.min(position),
    };
    if high == 0 {
        return None;
    }
    (limit > 0).then(|| (high.saturating_sub(limit - 1).max(1), high))
}

#[cfg(test)]
mod tests {
    use super::PageTop::{Offset, Position};
    use super::range;

    #[test]
    fn pages_are_counted_from_the_newest() {
        assert_eq!(range(10, Offset(0), 4), Some((7, 10)));
        assert_eq!(range(10, Offset(8), 4), Some((1, 2)));
        assert_eq!(range(10, Offset(10), 4), None);
        assert_eq!(range(10, Offset(u32::MAX), 4), None);
        assert_eq!(range(0, Offset(0), 4), None);
        assert_eq!(range(10, Offset(0), 0), None);
        assert_eq!(range(u32::MAX, Offset(0), 1), Some((u32::MAX, u32::MAX)));
        assert_eq!(range(10, Position(8), 4), Some((5, 8)));
        assert_eq!(range(10, Position(20), 4), Some((7, 10)));
        assert_eq!(range(10, Position(0), 4), None);
    }
}
