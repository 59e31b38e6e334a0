//! Dates and phrases in several languages.

use chrono::{DateTime, Datelike as _, FixedOffset, Timelike as _};
use latchmail_core::clock::Timestamp;

/// The language of dates and phrases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locale {
    /// English.
    #[default]
    English,
    /// German.
    German,
    /// French.
    French,
    /// Spanish.
    Spanish,
    /// Italian.
    Italian,
    /// Portuguese.
    Portuguese,
}

/// The names of the header fields of a forwarded message. In French, a space that does not break
/// precedes the colon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels {
    pub(crate) title: &'static str,
    pub(crate) from: &'static str,
    pub(crate) date: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) to: &'static str,
    pub(crate) cc: &'static str,
}

impl Locale {
    /// Returns the language of a tag (BCP 47), for example `de` for `de-AT`. Returns English for
    /// other languages.
    #[must_use]
    pub fn of(tag: &str) -> Self {
        let language = tag.split(['-', '_']).next().unwrap_or_default();
        match language.to_ascii_lowercase().as_str() {
            "de" => Self::German,
            "fr" => Self::French,
            "es" => Self::Spanish,
            "it" => Self::Italian,
            "pt" => Self::Portuguese,
            _ => Self::English,
        }
    }

    /// Returns a date in the sender's time zone, which is `offset` seconds east of UTC.
    pub(crate) fn date(self, date: Timestamp, offset: i32) -> Option<String> {
        let zone = FixedOffset::east_opt(offset)?;
        let date = DateTime::from_timestamp_millis(date.millis())?.with_timezone(&zone);
        let index = |number: u32| usize::try_from(number).unwrap_or_default();
        let (weekdays, months) = self.names();
        let weekday = weekdays.get(index(date.weekday().num_days_from_monday()))?;
        let (day, month, year) = (date.day(), months.get(index(date.month0()))?, date.year());
        let time = format!("{:02}:{:02}", date.hour(), date.minute());
        Some(match self {
            Self::English => format!("{weekday}, {day} {month} {year} at {time}"),
            Self::German => format!("{weekday}, {day}. {month} {year} um {time} Uhr"),
            Self::French => format!("{weekday} {day} {month} {year} à {time}"),
            Self::Spanish => format!("{weekday}, {day} {month} {year} a las {time}"),
            Self::Italian => format!("{weekday} {day} {month} {year} alle ore {time}"),
            Self::Portuguese => format!("{weekday}, {day} de {month} de {year} às {time}"),
        })
    }

    /// Returns the line before a quotation.
    pub(crate) fn attribution(self, date: Option<&str>, author: &str) -> String {
        match (self, date) {
            (Self::English, Some(date)) => format!("On {date}, {author} wrote:"),
            (Self::English, None) => format!("{author} wrote:"),
            (Self::German, Some(date)) => format!("Am {date} schrieb {author}:"),
            (Self::German, None) => format!("{author} schrieb:"),
            (Self::French, Some(date)) => format!("Le {date}, {author} a écrit\u{a0}:"),
            (Self::French, None) => format!("{author} a écrit\u{a0}:"),
            (Self::Spanish, Some(date)) => format!("El {date}, {author} escribió:"),
            (Self::Spanish, None) => format!("{author} escribió:"),
            (Self::Italian, Some(date)) => format!("Il giorno {date} {author} ha scritto:"),
            (Self::Italian, None) => format!("{author} ha scritto:"),
            (Self::Portuguese, Some(date)) => format!("Em {date}, {author} escreveu:"),
            (Self::Portuguese, None) => format!("{author} escreveu:"),
        }
    }

    pub(crate) fn labels(self) -> Labels {
        let [title, from, date, subject, to, cc] = match self {
            Self::English => [
                "Forwarded message",
                "From:",
                "Date:",
                "Subject:",
                "To:",
                "Cc:",
            ],
            Self::German => [
                "Weitergeleitete Nachricht",
                "Von:",
                "Datum:",
                "Betreff:",
                "An:",
                "Cc:",
            ],
            Self::French => [
                "Message transféré",
                "De\u{a0}:",
                "Date\u{a0}:",
                "Objet\u{a0}:",
                "À\u{a0}:",
                "Cc\u{a0}:",
            ],
            Self::Spanish => [
                "Mensaje reenviado",
                "De:",
                "Fecha:",
                "Asunto:",
                "Para:",
                "Cc:",
            ],
            Self::Italian => [
                "Messaggio inoltrato",
                "Da:",
                "Data:",
                "Oggetto:",
                "A:",
                "Cc:",
            ],
            Self::Portuguese => [
                "Mensagem encaminhada",
                "De:",
                "Data:",
                "Assunto:",
                "Para:",
                "Cc:",
            ],
        };
        Labels {
            title,
            from,
            date,
            subject,
            to,
            cc,
        }
    }

    /// Returns the short names of the days, from Monday, and of the months, as in CLDR.
    fn names(self) -> ([&'static str; 7], [&'static str; 12]) {
        match self {
            Self::English => (
                ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
                [
                    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
                    "Dec",
                ],
            ),
            Self::German => (
                ["Mo.", "Di.", "Mi.", "Do.", "Fr.", "Sa.", "So."],
                [
                    "Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.",
                    "Nov.", "Dez.",
                ],
            ),
            Self::French => (
                ["lun.", "mar.", "mer.", "jeu.", "ven.", "sam.", "dim."],
                [
                    "janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.",
                    "oct.", "nov.", "déc.",
                ],
            ),
            Self::Spanish => (
                ["lun", "mar", "mié", "jue", "vie", "sáb", "dom"],
                [
                    "ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sept", "oct", "nov",
                    "dic",
                ],
            ),
            Self::Italian => (
                ["lun", "mar", "mer", "gio", "ven", "sab", "dom"],
                [
                    "gen", "feb", "mar", "apr", "mag", "giu", "lug", "ago", "set", "ott", "nov",
                    "dic",
                ],
            ),
            Self::Portuguese => (
                ["seg.", "ter.", "qua.", "qui.", "sex.", "sáb.", "dom."],
                [
                    "jan.", "fev.", "mar.", "abr.", "mai.", "jun.", "jul.", "ago.", "set.", "out.",
                    "nov.", "dez.",
                ],
            ),
        }
    }
}
