//! Pages of messages in the fake host.

use latchmail_shape::codes;

use super::mail::{FLAGGED, Mail, SEEN, Stored, has_flag};
use super::mailbox::check_page;
use crate::capability::{Error, Listing, MessageQuery, Page, PageStart, Summary};

/// The error text for a cursor that is malformed, or belongs to another folder or other filters.
const INVALID_CURSOR: &str = "Invalid cursor";

impl Mail {
    /// Returns a page of the messages of a folder.
    pub(super) fn list(&self, query: &MessageQuery) -> Result<Listing, Error> {
        let MessageQuery {
            folder,
            filters,
            start,
            limit,
        } = query;
        check_page(Page {
            offset: 0,
            limit: *limit,
        })?;
        for filter in filters {
            if !["unread", "flagged"].contains(&filter.as_str()) {
                let text = format!("There is no filter {filter:?}");
                return Err(Error::invalid(codes::INVALID_FIELD, text));
            }
        }
        if !self.has(folder) {
            return Err(Error::NotFound);
        }
        let matches = |summary: &Summary| {
            filters.iter().all(|filter| match filter.as_str() {
                "unread" => !has_flag(summary, SEEN),
                _ => has_flag(summary, FLAGGED),
            })
        };
        let matching = self.of(folder).filter(|(summary, _)| matches(summary));
        let mut matching: Vec<(Summary, &Stored)> = matching.collect();
        matching.reverse();
        let total = u32::try_from(matching.len()).unwrap_or(u32::MAX);
        let mut sorted = filters.clone();
        sorted.sort();
        let prefix = format!("{folder} {} ", sorted.join(","));
        let skipped = match start {
            PageStart::Offset(offset) => *offset as usize,
            PageStart::Cursor(cursor) => {
                let after = cursor
                    .strip_prefix(&prefix)
                    .and_then(|text| text.parse().ok());
                let after: u64 =
                    after.ok_or_else(|| Error::invalid(codes::INVALID_CURSOR, INVALID_CURSOR))?;
                let listed = |(_, stored): &&(Summary, &Stored)| stored.arrival >= after;
                matching.iter().take_while(listed).count()
            }
        };
        let rest = matching.get(skipped..).unwrap_or_default();
        let page = &rest[..rest.len().min(*limit as usize)];
        let last = page.last().filter(|_| page.len() < rest.len());
        Ok(Listing {
            messages: page.iter().map(|(summary, _)| summary.clone()).collect(),
            total,
            next: last.map(|(_, stored)| format!("{prefix}{}", stored.arrival)),
        })
    }
}
