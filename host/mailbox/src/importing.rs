//! Stores messages that clients upload (imports). Each import runs to completion on its own task. A
//! message with an idempotency key is stored only once.

mod content;
mod find;
mod import;
mod recording;
mod result;

pub use content::MAX_SIZE;
pub use import::{Import, Importer};
pub use result::{Error, Imported};
