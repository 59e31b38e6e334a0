//! Validates personal data and passwords. Each function validates one
//! field. An error has the status 400 and names the field.

use chrono::{Datelike, NaiveDate};
use latchmail_core::codes;
use latchmail_core::error::Failure;

use super::passwords;

const SHORTEST_PASSWORD: usize = 8;
const LONGEST_NAME: usize = 64;
const LONGEST_LABEL: usize = 64;
const YOUNGEST: i32 = 13;

/// Checks a new password. `field` is the name of the password's field in the request. Characters,
/// upper case and lower case are as defined by Unicode. Digits are 0 to 9.
///
/// # Errors
/// Returns 400 if the password is too short or too long, or if it does not contain an upper-case
/// letter, a lower-case letter and a digit.
pub fn new_password(field: &str, password: &str) -> Result<(), Failure> {
    let invalid = |text| {
        Err(Failure::invalid(
            codes::INVALID_PASSWORD,
            format!("{field} {text}"),
        ))
    };
    if password.chars().count() < SHORTEST_PASSWORD {
        return invalid("must be at least 8 characters");
    }
    if password.len() > passwords::MAX_LENGTH {
        return invalid("must be at most 1024 bytes");
    }
    if !password.chars().any(char::is_uppercase) {
        return invalid("must contain an upper-case letter");
    }
    if !password.chars().any(char::is_lowercase) {
        return invalid("must contain a lower-case letter");
    }
    if !password.chars().any(|c| c.is_ascii_digit()) {
        return invalid("must contain a digit");
    }
    Ok(())
}

/// Checks a first or last name and returns it without surrounding white space. The result has 1 to
/// 64 characters.
///
/// # Errors
/// Returns 400 if the name has an invalid length or contains control characters. The error text
/// contains `field`.
pub fn name(field: &str, text: &str) -> Result<String, Failure> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > LONGEST_NAME {
        return Err(Failure::invalid(
            codes::INVALID_NAME,
            format!("{field} must be 1 to 64 characters"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Failure::invalid(
            codes::INVALID_NAME,
            format!("{field} must not contain control characters"),
        ));
    }
    Ok(text.to_owned())
}

/// Checks the label of a credential.
///
/// # Errors
/// Returns 400 if the label is empty or too long, or if it contains control characters.
pub fn label(text: &str) -> Result<(), Failure> {
    let characters = text.chars().count();
    if (1..=LONGEST_LABEL).contains(&characters) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Failure::invalid(
        codes::INVALID_LABEL,
        "label must be 1 to 64 characters on one line",
    ))
}

/// Checks a date of birth in the form `YYYY-MM-DD`. `today` is the current date. If a person was
/// born on 29 February, the person's birthday is 1 March in years without this day.
///
/// # Errors
/// Returns 400 if the text is not a date of this form, if the date is in the future, or if the
/// person is younger than 13.
pub fn date_of_birth(text: &str, today: NaiveDate) -> Result<(), Failure> {
    let born = date(text).ok_or_else(|| {
        Failure::invalid(
            codes::INVALID_DATE_OF_BIRTH,
            "dob must be a date in the form YYYY-MM-DD",
        )
    })?;
    if born > today {
        return Err(Failure::invalid(
            codes::INVALID_DATE_OF_BIRTH,
            "dob must not be in the future",
        ));
    }
    let had_birthday = (today.month(), today.day()) >= (born.month(), born.day());
    let age = today.year() - born.year() - i32::from(!had_birthday);
    if age < YOUNGEST {
        return Err(Failure::invalid(
            codes::TOO_YOUNG,
            "dob must be at least 13 years ago",
        ));
    }
    Ok(())
}

/// Parses a date of exactly the form `YYYY-MM-DD`. The date parser of `chrono` also accepts signs
/// and missing zeros.
fn date(text: &str) -> Option<NaiveDate> {
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if shaped {
        NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use latchmail_core::error::Kind;

    use super::*;

    fn day(text: &str) -> NaiveDate {
        date(text).unwrap()
    }

    fn text_of<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
        let failure = result.unwrap_err();
        assert_eq!(failure.kind, Kind::Invalid);
        failure.text.into_owned()
    }

    #[test]
    fn a_password_of_eight_characters_with_both_cases_and_a_digit_will_do() {
        for password in [
            "Abcdefg1",
            "Пароль12",
            "ÄÖÜäöü12",
            "A b c d 1",
            &"Aa1".repeat(341),
        ] {
            assert!(new_password("password", password).is_ok(), "{password}");
        }
    }

    #[test]
    fn a_weak_password_is_refused_with_what_it_lacks() {
        for (password, lacks) in [
            ("", "at least 8"),
            ("Abcdef1", "at least 8"),
            ("Äöüäöü1", "at least 8"),
            ("abcdefg1", "an upper-case letter"),
            ("ABCDEFG1", "a lower-case letter"),
            ("Abcdefgh", "a digit"),
            ("Abcdefg٣", "a digit"),
            ("日本語日本語日1", "an upper-case letter"),
            (&"Aa1x".repeat(257), "at most 1024"),
        ] {
            let answer = text_of(new_password("password", password));
            assert!(
                answer.starts_with("password ") && answer.contains(lacks),
                "{password}: {answer}"
            );
        }
    }

    #[test]
    fn a_name_is_trimmed() {
        assert_eq!(name("first_name", "  Ada ").unwrap(), "Ada");
        assert_eq!(name("first_name", "王").unwrap(), "王");
        assert_eq!(name("first_name", "Anna Lena").unwrap(), "Anna Lena");
        assert_eq!(
            name("first_name", &"é".repeat(64)).unwrap().chars().count(),
            64
        );
    }

    #[test]
    fn a_name_that_is_empty_long_or_has_control_characters_is_refused_by_field() {
        for text in [
            "",
            "   ",
            &"x".repeat(65),
            "A\nB",
            "A\0",
            "\u{1b}[31mA",
            "A\u{85}B",
        ] {
            assert!(
                text_of(name("last_name", text)).starts_with("last_name "),
                "{text:?}"
            );
        }
    }

    #[test]
    fn the_holder_is_13_on_the_thirteenth_birthday() {
        let today = day("2026-11-20");
        assert!(date_of_birth("2013-11-20", today).is_ok());
        assert!(date_of_birth("1900-01-01", today).is_ok());
        for young in ["2013-11-21", "2013-12-01", "2014-01-01", "2026-11-20"] {
            assert!(
                text_of(date_of_birth(young, today)).contains("13 years"),
                "{young}"
            );
        }
        assert!(text_of(date_of_birth("2026-11-21", today)).contains("future"));
    }

    #[test]
    fn who_was_born_on_a_leap_day_is_13_on_the_first_of_march() {
        assert!(date_of_birth("2012-02-29", day("2025-02-28")).is_err());
        assert!(date_of_birth("2012-02-29", day("2025-03-01")).is_ok());
        assert!(date_of_birth("2012-02-29", day("2028-02-29")).is_ok());
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2000-02-30",
            "2001-02-29",
            "2000-13-01",
            "2000-00-10",
            "2000-1-01",
            "20000101",
            "01-01-2000",
            "+200-01-01",
            "2000/01/01",
            "2000-01-01T00:00:00Z",
            " 2000-01-01",
            "2000-01-0\u{661}",
            "yesterday",
        ] {
            let answer = text_of(date_of_birth(text, day("2026-11-20")));
            assert_eq!(
                answer, "dob must be a date in the form YYYY-MM-DD",
                "{text:?}"
            );
        }
    }
}
