//! Parses Message-IDs in requests (RFC 5322, section 3.6.4).

use latchmail_sdk::{Failure, codes};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::strings::Strings;

/// Maximum length of a Message-ID with its angle brackets, in bytes. A header line has at most 998
/// bytes, including the name of the header (RFC 5322, section 2.1.1).
const MAX_ID: usize = 985;
/// Maximum length of a list of Message-IDs in bytes. The length includes one separator for each
/// Message-ID.
const MAX_LIST: usize = MAX_ID * 10;

/// A list of Message-IDs: one string with Message-IDs separated by spaces, or an array of strings
/// with one Message-ID each.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = OneOrMany)]
pub struct MessageIds(Strings);

/// Message-IDs separated by spaces, or an array of strings with one Message-ID each.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
#[schema(as = MessageIds)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    /// Message-IDs separated by spaces.
    #[schema(title = "List")]
    One(String),
    /// An array of strings, each with one Message-ID.
    #[schema(title = "Array")]
    Many(Vec<String>),
}

impl MessageIds {
    /// Returns the words of the list, which may be no Message-IDs.
    pub(crate) fn words(self) -> Vec<String> {
        let lists = match self.0 {
            Strings::One(list) => vec![list],
            Strings::Many(lists) => lists,
        };
        let words = lists.iter().flat_map(|list| list.split_whitespace());
        words.map(ToOwned::to_owned).collect()
    }

    /// Returns the Message-IDs in the client's order.
    ///
    /// # Errors
    /// Returns 400 if a string is not a Message-ID, or if the list is too long. The error message
    /// contains `field`.
    pub(crate) fn ids(self, field: &str) -> Result<Vec<String>, Failure> {
        let ids = match self.0 {
            Strings::One(list) => {
                if list.len() > MAX_LIST {
                    return Err(too_long(field));
                }
                let ids = list.split(' ').filter(|id| !id.is_empty());
                let ids: Vec<String> = ids.map(ToOwned::to_owned).collect();
                if !ids.iter().all(|id| is_id(id)) {
                    return Err(Failure::bad_request(
                        codes::INVALID_MESSAGE_ID,
                        format!(
                            "{field} must be Message-IDs in angle brackets, separated by spaces"
                        ),
                    ));
                }
                ids
            }
            Strings::Many(ids) => {
                if ids.iter().map(|id| id.len() + 1).sum::<usize>() > MAX_LIST {
                    return Err(too_long(field));
                }
                if let Some(at) = ids.iter().position(|id| !is_id(id)) {
                    return Err(Failure::bad_request(
                        codes::INVALID_MESSAGE_ID,
                        format!("{field}[{at}] must be one Message-ID in angle brackets"),
                    ));
                }
                ids
            }
        };
        Ok(ids)
    }
}

fn too_long(field: &str) -> Failure {
    Failure::bad_request(codes::INVALID_MESSAGE_ID, format!("{field} is too long"))
}

/// Returns `true` if `text` is one Message-ID in angle brackets.
pub(crate) fn is_id(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|id| id.strip_suffix('>'));
    inner.is_some_and(|inner| {
        !inner.is_empty()
            && text.len() <= MAX_ID
            && inner
                .bytes()
                .all(|b| b.is_ascii_graphic() && !b"<>".contains(&b))
    })
}
