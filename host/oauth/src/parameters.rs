//! The parameters of an OAuth request (RFC 6749, section 3.1). A parameter with an empty value
//! counts as missing. A parameter must not be repeated, unless a specification allows the
//! repetition.

use std::fmt;

use super::error::Refusal;

/// The decoded names and values of the parameters. The values can be secrets, so `Debug` shows only
/// the names.
pub struct Parameters(Vec<(String, String)>);

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl Parameters {
    /// Wraps the name-value pairs of a query or a form.
    #[must_use]
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Returns all non-empty values of a parameter. Use this method for parameters that are allowed
    /// to occur several times.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.0.iter().filter(move |(key, _)| key == name);
        values
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns the value of a parameter, or `None` if the parameter is missing or empty.
    ///
    /// # Errors
    /// Returns `invalid_request` if the parameter is repeated, because two programs could use
    /// different values of the parameter.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(key, _)| key == name);
        let value = values.next().map(|(_, value)| value.as_str());
        if values.next().is_some() {
            return Err(Refusal::request(format!("{name} must not be repeated")));
        }
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Returns the value of a required parameter.
    ///
    /// # Errors
    /// Returns `invalid_request` if the parameter is missing or repeated.
    pub fn needed(&self, name: &str) -> Result<&str, Refusal> {
        self.one(name)?
            .ok_or_else(|| Refusal::request(format!("{name} is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        let pairs = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        Parameters::new(pairs.collect())
    }

    #[test]
    fn an_empty_parameter_is_as_good_as_absent_and_one_that_is_there_twice_is_refused() {
        let given = parameters(&[
            ("a", "1"),
            ("b", ""),
            ("c", "1"),
            ("c", "1"),
            ("d", ""),
            ("d", ""),
        ]);
        assert_eq!(given.one("a"), Ok(Some("1")));
        assert_eq!(given.one("b"), Ok(None));
        assert_eq!(given.one("x"), Ok(None));
        assert_eq!(given.needed("b").unwrap_err().description, "b is missing");
        assert_eq!(given.one("c").unwrap_err().code, "invalid_request");
        assert!(given.one("d").is_err());
        assert_eq!(given.all("c").count(), 2);
        assert_eq!(given.all("b").count(), 0);
    }
}
