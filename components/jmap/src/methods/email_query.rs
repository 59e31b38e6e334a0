//! `Email/query` and `Email/queryChanges` (RFC 8621, sections 4.4 and 4.5).

use latchmail_sdk::capability::{
    Anchor, Condition, FilterNode, NumberPage, NumberQuery, QueryError, QueryStart, SortKey,
};
use serde_json::{Value, json};

use crate::Capabilities;
use crate::args::{Args, Object, utc_date};
use crate::changes::{self, Kind};
use crate::context::Context;
use crate::email::flag_of;
use crate::error::{MethodError, MethodResult};
use crate::ids;
use crate::limits::MAX_QUERY;

/// The maximum depth of a filter.
const MAX_DEPTH: usize = 20;
/// The maximum number of words of a text.
const MAX_WORDS: usize = 50;
/// The maximum number of emails that change between two states of a query.
const MAX_CHANGED: usize = 1_000;
/// The maximum number of attempts to get a result that did not change while it was read.
const ATTEMPTS: usize = 3;

/// A filter in the form of the host.
#[derive(Debug, Default)]
struct Filter {
    nodes: Vec<FilterNode>,
    /// Whether a condition depends on other emails of the thread.
    has_thread: bool,
}

impl Filter {
    /// Reads the argument `filter`.
    fn read<H: Capabilities>(
        ctx: &mut Context<'_, H>,
        args: &Args<'_>,
    ) -> Result<Self, MethodError> {
        let mut filter = Self::default();
        if let Some(object) = args.object("filter")? {
            filter.add(ctx, object, 0)?;
        }
        Ok(filter)
    }

    fn condition(&mut self, name: &str, value: impl Into<String>) {
        self.has_thread |= name.starts_with("thread-");
        self.nodes.push(FilterNode::Condition(Condition {
            name: name.into(),
            value: value.into(),
        }));
    }

    fn not(&mut self, name: &str, value: impl Into<String>) {
        self.nodes.push(FilterNode::NoneOf(1));
        self.condition(name, value);
    }

    fn add<H: Capabilities>(
        &mut self,
        ctx: &mut Context<'_, H>,
        filter: &Object,
        depth: usize,
    ) -> Result<(), MethodError> {
        if depth > MAX_DEPTH {
            return Err(unsupported("The filter is too deep"));
        }
        let Some(operator) = filter.get("operator") else {
            // Some clients send null for conditions that are not set.
            let given = filter.iter().filter(|(_, value)| !value.is_null());
            let number = count(given.clone().count())?;
            self.nodes.push(FilterNode::AllOf(number));
            for (name, value) in given {
                self.property(ctx, name, value)?;
            }
            return Ok(());
        };
        let conditions = filter.get("conditions").and_then(Value::as_array);
        let wrong = || MethodError::invalid("conditions must be an array of objects");
        let conditions = conditions.ok_or_else(wrong)?;
        let count = count(conditions.len())?;
        self.nodes.push(match operator.as_str() {
            Some("AND") => FilterNode::AllOf(count),
            Some("OR") => FilterNode::AnyOf(count),
            Some("NOT") => FilterNode::NoneOf(count),
            _ => return Err(MethodError::invalid("operator must be AND, OR or NOT")),
        });
        for condition in conditions {
            self.add(ctx, condition.as_object().ok_or_else(wrong)?, depth + 1)?;
        }
        Ok(())
    }

    /// Adds the condition of a property.
    fn property<H: Capabilities>(
        &mut self,
        ctx: &mut Context<'_, H>,
        name: &str,
        value: &Value,
    ) -> Result<(), MethodError> {
        let wrong = || MethodError::invalid(format!("{name} has the wrong type"));
        let text = || value.as_str().ok_or_else(wrong);
        let time = || text().and_then(|text| utc_date(text).ok_or_else(wrong));
        let size = || value.as_u64().ok_or_else(wrong);
        match name {
            "inMailbox" => self.mailbox(ctx, text()?)?,
            "inMailboxOtherThan" => {
                let ids = value.as_array().ok_or_else(wrong)?;
                self.nodes.push(FilterNode::NoneOf(count(ids.len())?));
                for id in ids {
                    self.mailbox(ctx, id.as_str().ok_or_else(wrong)?)?;
                }
            }
            "before" => self.condition("arrived-before", time()?.to_string()),
            "after" => self.condition("arrived-from", time()?.to_string()),
            "minSize" => self.condition("min-size", size()?.to_string()),
            "maxSize" => self.condition("max-size", size()?.to_string()),
            "allInThreadHaveKeyword" => self.condition("thread-flags", flag_of(text()?)),
            "someInThreadHaveKeyword" => self.condition("thread-flag", flag_of(text()?)),
            "noneInThreadHaveKeyword" => self.not("thread-flag", flag_of(text()?)),
            "hasKeyword" => self.condition("flag", flag_of(text()?)),
            "notKeyword" => self.not("flag", flag_of(text()?)),
            "hasAttachment" => {
                if value.as_bool().ok_or_else(wrong)? {
                    self.condition("attachment", "");
                } else {
                    self.not("attachment", "");
                }
            }
            "text" | "from" | "subject" | "body" => self.words(name, text()?)?,
            other => return Err(unsupported(other)),
        }
        Ok(())
    }

    /// Adds the condition that an email is in a mailbox. No email is in an unknown mailbox.
    fn mailbox<H: Capabilities>(
        &mut self,
        ctx: &mut Context<'_, H>,
        id: &str,
    ) -> Result<(), MethodError> {
        let id = ctx.resolve(id).to_owned();
        match ctx.path_of(&id)? {
            Some(path) => self.condition("folder", path),
            None => self.nodes.push(FilterNode::AnyOf(0)),
        }
        Ok(())
    }

    /// Adds the condition that a part of an email has all words and phrases of a text.
    fn words(&mut self, part: &str, text: &str) -> Result<(), MethodError> {
        let words = words(text);
        let has_word = |word: &String| word.chars().any(char::is_alphanumeric);
        if words.is_empty() || words.len() > MAX_WORDS || !words.iter().all(has_word) {
            return Err(unsupported("The text must consist of words"));
        }
        self.nodes.push(FilterNode::AllOf(count(words.len())?));
        for word in words {
            self.condition(part, word);
        }
        Ok(())
    }
}

/// Splits a text into words, and phrases in quotation marks (RFC 8621, section 4.4.1).
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = if matches!(first, '"' | '\'') && rest[1..].contains(first) {
            rest[1..].split_once(first).unwrap_or((rest, ""))
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            rest.split_at(end)
        };
        if !word.trim().is_empty() {
            words.push(word.trim().to_owned());
        }
        rest = after.trim_start();
    }
    words
}

fn unsupported(text: &str) -> MethodError {
    MethodError::with("unsupportedFilter", text)
}

fn count(count: usize) -> Result<u32, MethodError> {
    u32::try_from(count).map_err(|_| unsupported("The filter is too large"))
}

/// Reads the argument `sort`. Also returns whether a key depends on other emails of the thread.
fn sort(args: &Args<'_>) -> Result<(Vec<SortKey>, bool), MethodError> {
    let (mut keys, mut has_thread) = (Vec::new(), false);
    for key in args.objects("sort")? {
        let property = key.get("property").and_then(Value::as_str);
        let property = property.ok_or_else(|| MethodError::invalid("property is missing"))?;
        let is_ascending = match key.get("isAscending") {
            None => true,
            Some(Value::Bool(is)) => *is,
            Some(_) => return Err(MethodError::invalid("isAscending must be a boolean")),
        };
        let name = match property {
            "receivedAt" => "arrival",
            "sentAt" => "date",
            "size" => "size",
            "hasKeyword" => "flag",
            "allInThreadHaveKeyword" => "thread-flags",
            "someInThreadHaveKeyword" => "thread-flag",
            other => return Err(MethodError::with("unsupportedSort", other)),
        };
        has_thread |= name.starts_with("thread-");
        let flag = if name.contains("flag") {
            let keyword = key.get("keyword").and_then(Value::as_str);
            let missing = || MethodError::invalid("keyword is missing");
            Some(flag_of(keyword.ok_or_else(missing)?))
        } else {
            None
        };
        keys.push(SortKey {
            name: name.into(),
            flag,
            ascending: is_ascending,
        });
    }
    Ok((keys, has_thread))
}

/// Reads the arguments of a query. Also returns whether its changes can be calculated.
fn number_query<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    args: &Args<'_>,
) -> Result<(NumberQuery, bool), MethodError> {
    let filter = Filter::read(ctx, args)?;
    let (sort, has_thread) = sort(args)?;
    let one_per_thread = args.flag("collapseThreads")?;
    let query = NumberQuery {
        filter: filter.nodes,
        sort,
        one_per_thread,
        start: QueryStart::Position(0),
        limit: 0,
        locate: Vec::new(),
    };
    Ok((query, !(one_per_thread || filter.has_thread || has_thread)))
}

fn run<H: Capabilities>(
    ctx: &Context<'_, H>,
    query: &NumberQuery,
) -> Result<NumberPage, MethodError> {
    ctx.host.query_messages(query).map_err(|error| match error {
        // The module has checked the rest.
        QueryError::Failed(latchmail_sdk::capability::Error::Invalid(problem)) => {
            MethodError::with("unsupportedFilter", problem.text)
        }
        error => error.into(),
    })
}

/// `Email/query`.
pub(super) fn query<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "filter",
        "sort",
        "position",
        "anchor",
        "anchorOffset",
        "limit",
        "calculateTotal",
        "collapseThreads",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let (query, can_calculate) = number_query(ctx, args)?;
    let given = args.unsigned("limit")?;
    let limit = given.map_or(MAX_QUERY, |limit| u32::try_from(limit).unwrap_or(u32::MAX));
    let position = args.integer("position")?.unwrap_or_default();
    let start = match args.text("anchor")? {
        Some(anchor) => {
            let uid = ids::number(ctx.resolve(anchor));
            QueryStart::Anchor(Anchor {
                uid: uid.ok_or(MethodError::new("anchorNotFound"))?,
                offset: args.integer("anchorOffset")?.unwrap_or_default(),
            })
        }
        None => QueryStart::Position(position),
    };
    let query = NumberQuery {
        start,
        limit: limit.min(MAX_QUERY),
        ..query
    };
    let state = changes::state(ctx)?;
    let page = run(ctx, &query)?;
    let ids: Vec<String> = page.uids.iter().map(ToString::to_string).collect();
    let mut response = json!({
        "accountId": ctx.account,
        "queryState": state,
        "canCalculateChanges": can_calculate,
        "position": page.position,
        "ids": ids,
    });
    if args.flag("calculateTotal")? {
        response["total"] = page.total.into();
    }
    if given.is_none_or(|given| given > u64::from(MAX_QUERY)) {
        response["limit"] = MAX_QUERY.into();
    }
    Ok(response)
}

/// `Email/queryChanges`. An email that changed is removed and added again, so the result does not
/// depend on which properties the filter and the sort use.
pub(super) fn query_changes<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    args: &Object,
) -> MethodResult {
    let known = [
        "filter",
        "sort",
        "sinceQueryState",
        "maxChanges",
        "upToId",
        "calculateTotal",
        "collapseThreads",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let (query, can_calculate) = number_query(ctx, args)?;
    let since = args.required("sinceQueryState")?;
    let max = changes::max_changes(args)?;
    args.text("upToId")?;
    if !can_calculate {
        return Err(MethodError::no_changes());
    }
    for _ in 0..ATTEMPTS {
        let Some((emails, state)) = changes::all(ctx, since, MAX_CHANGED)? else {
            return Err(MethodError::no_changes());
        };
        let existing = emails.iter().filter(|(_, kind)| **kind != Kind::Destroyed);
        let query = NumberQuery {
            locate: existing.map(|(uid, _)| *uid).collect(),
            ..query.clone()
        };
        let page = run(ctx, &query)?;
        // The positions must be those of the new state.
        if !changes::is_current(ctx, &state, &changes::state(ctx)?)? {
            continue;
        }
        let removed = emails.iter().filter(|(_, kind)| **kind != Kind::Created);
        let removed: Vec<String> = removed.map(|(uid, _)| uid.to_string()).collect();
        let added: Vec<Value> = page
            .located
            .iter()
            .map(|one| json!({ "id": one.uid.to_string(), "index": one.position }))
            .collect();
        if max.is_some_and(|max| removed.len() + added.len() > max) {
            return Err(MethodError::new("tooManyChanges"));
        }
        let mut response = json!({
            "accountId": ctx.account,
            "oldQueryState": since,
            "newQueryState": state,
            "removed": removed,
            "added": added,
        });
        if args.flag("calculateTotal")? {
            response["total"] = page.total.into();
        }
        return Ok(response);
    }
    Err(MethodError::no_changes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_words_and_phrases() {
        for (text, expected) in [
            ("  green  tea ", vec!["green", "tea"]),
            ("\"green tea\" 'a b' c", vec!["green tea", "a b", "c"]),
            ("it's \"open", vec!["it's", "\"open"]),
            ("\"\" ''", vec![]),
            ("\u{e9}t\u{e9}", vec!["\u{e9}t\u{e9}"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
