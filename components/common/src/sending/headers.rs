//! Checks the additional header fields of a message. The host has the same rules.

use latchmail_sdk::capability::Header;
use latchmail_sdk::{Failure, Object, codes};
use latchmail_shape::{HeaderFieldError, MAX_HEADER_FIELDS, check_header_field, is_repeatable};

use super::SendHeader;

pub(super) fn headers(given: Vec<Object<SendHeader>>) -> Result<Vec<Header>, Failure> {
    let failure = |text| Failure::bad_request(codes::INVALID_MESSAGE_HEADER, text);
    if given.len() > MAX_HEADER_FIELDS {
        return Err(failure("headers must be at most 50 fields".to_owned()));
    }
    let mut headers: Vec<Header> = Vec::with_capacity(given.len());
    for (index, Object(SendHeader { name, value })) in given.into_iter().enumerate() {
        let value = value.trim_matches(' ').to_owned();
        if let Err(error) = check_header_field(&name, &value) {
            return Err(failure(format!("headers[{index}].{}", description(error))));
        }
        let is_repeated = headers
            .iter()
            .any(|one| one.name.eq_ignore_ascii_case(&name));
        if is_repeated && !is_repeatable(&name) {
            return Err(failure(format!(
                "headers[{index}].name must not be repeated"
            )));
        }
        headers.push(Header { name, value });
    }
    Ok(headers)
}

fn description(error: HeaderFieldError) -> &'static str {
    match error {
        HeaderFieldError::NameNotAllowed => {
            "name must be X-*, List-*, Auto-Submitted, Importance or Precedence"
        }
        HeaderFieldError::NameReserved => "name must not be a name that mail servers trust",
        HeaderFieldError::Value => {
            "value must be 1 to 900 characters on one line without control characters"
        }
        HeaderFieldError::ValueNotAscii => "value must be ASCII characters",
    }
}
