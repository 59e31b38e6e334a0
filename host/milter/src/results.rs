//! The `Authentication-Results` field (RFC 8601). This module recognizes fields that claim to come
//! from this server, and writes the field of this server.

use mail_auth::{DkimResult, DmarcResult, SpfResult};

/// The name of the header field.
pub(crate) const NAME: &str = "Authentication-Results";

/// Returns `true` if a field claims to come from this server. In such a field, the authserv-id
/// contains the id of this server, in upper or lower case. [`latchmail_mailbox`] reads only fields
/// that begin with exactly this id. So this function returns `true` for every field that the
/// service reads.
pub(crate) fn claims_to_be_from(value: &[u8], authserv_id: &str) -> bool {
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    let id = value.split(';').next().unwrap_or_default();
    id.contains(&authserv_id.to_ascii_lowercase())
}

/// One check with its method, its result, and properties such as `header.from`.
#[derive(Debug)]
pub(crate) struct Check {
    method: &'static str,
    result: &'static str,
    properties: Vec<(&'static str, String)>,
}

impl Check {
    pub(crate) fn new(method: &'static str, result: &'static str) -> Self {
        Self {
            method,
            result,
            properties: Vec::new(),
        }
    }

    /// Adds a property. Omits a value that needs quotes, because the sender may have chosen the
    /// value to forge a result.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !value.is_empty() && value.len() <= 255 && value.bytes().all(plain) {
            self.properties.push((name, value.to_owned()));
        }
        self
    }

    pub(crate) fn has_result(&self, result: &str) -> bool {
        self.result == result
    }

    pub(crate) fn set_result(&mut self, result: &'static str) {
        self.result = result;
    }
}

/// Returns the value of the field, including its leading space.
pub(crate) fn value(authserv_id: &str, checks: &[Check]) -> String {
    let mut value = format!(" {authserv_id}");
    for check in checks {
        value.extend([";\n\t", check.method, "=", check.result]);
        for (name, property) in &check.properties {
            value.extend([" ", name, "=", property]);
        }
    }
    value
}

/// Returns the keyword for a result of SPF (RFC 8601, section 2.7.2).
pub(crate) fn spf(result: SpfResult) -> &'static str {
    match result {
        SpfResult::Pass => "pass",
        SpfResult::Fail => "fail",
        SpfResult::SoftFail => "softfail",
        SpfResult::Neutral => "neutral",
        SpfResult::TempError => "temperror",
        SpfResult::PermError => "permerror",
        SpfResult::None => "none",
    }
}

/// Returns the keyword for a result of DKIM (RFC 8601, section 2.7.1).
pub(crate) fn dkim(result: &DkimResult) -> &'static str {
    match result {
        DkimResult::Pass => "pass",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::Fail(_) => "fail",
        DkimResult::PermError(_) => "permerror",
        DkimResult::TempError(_) => "temperror",
        DkimResult::None => "none",
    }
}

/// Returns the keyword for a result of DMARC (RFC 7489, section 11.2).
pub(crate) fn dmarc(result: &DmarcResult) -> &'static str {
    match result {
        DmarcResult::Pass => "pass",
        DmarcResult::Fail(_) => "fail",
        DmarcResult::TempError(_) => "temperror",
        DmarcResult::PermError(_) => "permerror",
        DmarcResult::None => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_claim_to_come_from_this_server_are_recognized() {
        for value in [
            " mail.first.test; dmarc=pass",
            " MAIL.first.TEST 1; dmarc=pass",
            "\n\t(a comment) \"mail.first.test\"; dmarc=pass",
            "mail.first.test",
        ] {
            assert!(
                claims_to_be_from(value.as_bytes(), "mail.first.test"),
                "{value}"
            );
        }
        for value in [" mx.outside.test; spf=pass smtp.helo=mail.first.test", ""] {
            assert!(
                !claims_to_be_from(value.as_bytes(), "mail.first.test"),
                "{value}"
            );
        }
    }

    #[test]
    fn values_from_the_sender_cannot_add_a_result() {
        let check = Check::new("spf", "fail")
            .with("smtp.mailfrom", "a; dmarc=pass")
            .with("smtp.helo", "\n\tb")
            .with("header.from", "outside.test");
        assert_eq!(
            value("mail.first.test", &[check]),
            " mail.first.test;\n\tspf=fail header.from=outside.test"
        );
    }
}
