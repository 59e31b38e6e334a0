//! The key that the service shares with the milter, for the marks of authentication results and for
//! the envelope ids of sent messages.

use std::sync::Arc;

use latchmail_core::config::{Config, Filter};
use latchmail_core::error::StartError;
use latchmail_core::hexadecimal;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_mailbox::TrustedResults;

use crate::start_error;

/// Returns the rules by which `Authentication-Results` fields are trusted. The milter marks its
/// fields with a key. If this key does not exist, creates it.
pub(crate) async fn trusted_results(
    config: &Config,
    directory: &Directory,
) -> Result<TrustedResults, StartError> {
    let authserv_id = config.inbound.authserv_id.clone();
    let key = match config.results_filter() {
        Filter::Latchmail if !authserv_id.is_empty() => Some(results_key(directory).await?),
        Filter::Latchmail | Filter::Other => None,
    };
    let spam_header = match config.results_filter() {
        // Without the milter's mark, the position of the field proves nothing.
        Filter::Latchmail if key.is_none() => String::new(),
        Filter::Latchmail | Filter::Other => config.inbound.spam_header.clone(),
    };
    Ok(TrustedResults {
        authserv_id,
        key,
        spam_header,
    })
}

/// Returns the key of envelope ids, with which the milter recognizes delivery reports. Returns
/// `None` if the mail server does not pass its reports through the milter.
pub(crate) async fn reports_key(
    config: &Config,
    directory: &Directory,
) -> Result<Option<Arc<[u8]>>, StartError> {
    if !config.requests_delivery_reports() {
        return Ok(None);
    }
    results_key(directory).await.map(Some)
}

/// Returns the key that the service shares with the milter. If the key does not exist, creates it.
async fn results_key(directory: &Directory) -> Result<Arc<[u8]>, StartError> {
    let new = secrets::random::<32>().map_err(start_error)?;
    let key = directory.keys.results_key(&hexadecimal::lower(&*new)).await;
    Ok(key.map_err(start_error)?.as_bytes().into())
}
