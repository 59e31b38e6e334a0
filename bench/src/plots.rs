//! Plots as SVG: lines with markers over linear or logarithmic axes. The same values always result
//! in the same file.
//!
//! The background is white, so that a plot is readable in light and dark pages. The colours are
//! those of Okabe and Ito, which people with colour blindness can distinguish. The font is that of
//! the viewer.

use std::ops::Range;

use anyhow::Context as _;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

/// The size of a plot in pixels. Two plots fit next to each other on a page.
const SIZE: (u32, u32) = (440, 320);

/// The width of the column of a name in the legend, which has two columns.
const COLUMN: i32 = 180;

/// The height of a line of the legend.
const LINE: i32 = 18;

const FONT: &str = "sans-serif";

/// The colours of the series. The first two are for the service and its counterpart, and the next
/// two for another figure of both.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// The colour of the lines of the grid.
const GRID: RGBColor = RGBColor(225, 225, 225);

/// Maximum number of points of a series with markers.
const MOST_MARKERS: usize = 16;

/// A plot.
pub(crate) struct Plot {
    /// Name of the file without its extension.
    pub(crate) file: String,
    pub(crate) title: String,
    /// Labels of the axes, with units.
    pub(crate) x_label: &'static str,
    pub(crate) y_label: &'static str,
    /// Whether an axis is logarithmic. Values that are not positive are omitted. An axis that is
    /// not logarithmic starts at 0.
    pub(crate) log_x: bool,
    pub(crate) log_y: bool,
    pub(crate) series: Vec<Series>,
}

/// A line of a plot.
pub(crate) struct Series {
    pub(crate) name: String,
    /// The values of x and y, in ascending order of x.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Plot {
    /// Returns the plot as SVG. Returns an error if it has no values.
    pub(crate) fn svg(&self) -> anyhow::Result<String> {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let x_axis = Axis::new(self.log_x, all().map(|(x, _)| *x))
            .with_context(|| format!("the plot {} has no values of x", self.file))?;
        let y_axis = Axis::new(self.log_y, all().map(|(_, y)| *y))
            .with_context(|| format!("the plot {} has no values of y", self.file))?;
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            root.fill(&WHITE)?;
            let root = root.titled(&self.title, (FONT, 16).into_font())?;
            let lines = i32::try_from(self.series.len().div_ceil(2))?;
            let (legend, body) = root.split_vertically(lines * LINE + 4);
            let mut chart = ChartBuilder::on(&body)
                .margin_top(8)
                .margin_left(10)
                .margin_right(24)
                .margin_bottom(4)
                .x_label_area_size(40)
                .y_label_area_size(66)
                .build_cartesian_2d(x_axis.clone(), y_axis.clone())?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(GRID)
                .label_style((FONT, 12))
                .axis_desc_style((FONT, 13))
                .x_desc(self.x_label)
                .y_desc(self.y_label)
                .draw()?;
            for (number, series) in self.series.iter().enumerate() {
                let colour = COLOURS[number % COLOURS.len()];
                // The markers of the first two series are filled.
                let style = ShapeStyle {
                    color: colour.to_rgba(),
                    filled: number < 2,
                    stroke_width: 2,
                };
                let points: Vec<_> = series
                    .points
                    .iter()
                    .copied()
                    .filter(|(x, y)| x_axis.contains(*x) && y_axis.contains(*y))
                    .collect();
                let size = if points.len() <= MOST_MARKERS { 4 } else { 0 };
                chart.draw_series(LineSeries::new(points, style).point_size(size))?;
                let place = i32::try_from(number)?;
                let at = (66 + place % 2 * COLUMN, 10 + place / 2 * LINE);
                legend.draw(
                    &(EmptyElement::at(at)
                        + PathElement::new(vec![(0, 0), (24, 0)], style)
                        + Circle::new((12, 0), size, style)
                        + Text::new(series.name.clone(), (30, -6), (FONT, 13))),
                )?;
            }
            root.present()?;
        }
        Ok(svg)
    }
}

/// The scale of an axis.
#[derive(Clone)]
struct Axis {
    is_log: bool,
    range: Range<f64>,
    /// The values with labels.
    labels: Vec<f64>,
}

impl Axis {
    /// Returns an axis that contains the values. Returns `None` if there are no values.
    fn new(is_log: bool, values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| is_allowed(is_log, *value)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let (least, most) = (*values.first()?, *values.last()?);
        Some(if is_log {
            Self::logarithmic(&values, least, most)
        } else {
            Self::linear(least.min(0.0), most)
        })
    }

    fn linear(min: f64, max: f64) -> Self {
        let length = if max > min { max - min } else { 1.0 };
        let magnitude = 10_f64.powf((length / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0]
            .map(|factor| factor * magnitude)
            .into_iter()
            .find(|step| length / step <= 5.0)
            .unwrap_or(10.0 * magnitude);
        let (first, last) = ((min / step).floor(), (max / step).ceil());
        // The range has at max seven steps.
        let labels: Vec<f64> = (0..8)
            .map(|number| first + f64::from(number))
            .take_while(|step| *step <= last.max(first + 1.0))
            .map(|number| number * step)
            .collect();
        Self {
            is_log: false,
            range: labels[0]..labels[labels.len() - 1],
            labels,
        }
    }

    /// The labels are the values if there are few, or else powers of ten and some of their
    /// multiples.
    fn logarithmic(values: &[f64], min: f64, max: f64) -> Self {
        const FEW: usize = 4;
        let (labels, range) = if values.len() <= FEW {
            (values.to_vec(), min / 1.4..max * 1.4)
        } else {
            let factors: &[f64] = match max / min {
                ..30.0 => &[1.0, 2.0, 5.0],
                ..300.0 => &[1.0, 3.0],
                _ => &[1.0],
            };
            let multiples: Vec<f64> = (-9..=12)
                .flat_map(|power| factors.iter().map(move |one| one * 10_f64.powi(power)))
                .collect();
            let first = multiples.partition_point(|one| *one <= min).max(1) - 1;
            let last = multiples
                .partition_point(|one| *one < max)
                .min(multiples.len() - 1);
            (
                multiples[first..=last].to_vec(),
                multiples[first]..multiples[last],
            )
        };
        Self {
            is_log: true,
            range,
            labels,
        }
    }

    fn contains(&self, value: f64) -> bool {
        is_allowed(self.is_log, value)
    }
}

/// Returns whether an axis can contain a value.
fn is_allowed(is_log: bool, value: f64) -> bool {
    value.is_finite() && (!is_log || value > 0.0)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let scale = |value: f64| if self.is_log { value.log10() } else { value };
        let (least, most) = (scale(self.range.start), scale(self.range.end));
        let share = (scale(*value) - least) / (most - least);
        #[expect(clippy::cast_possible_truncation, reason = "a position in a plot")]
        let offset = (f64::from(end - start) * share).round() as i32;
        start + offset
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labels.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        number(*value)
    }
}

/// Returns a number as text: with three significant digits if it is below 100, and with separators
/// of thousands.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        ..0.1 => 3,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let text = match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.'),
        None => &text,
    };
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.char_indices() {
        let rest = whole.len() - index;
        if index > 0 && rest.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        Plot {
            file: "listing".into(),
            title: "Listing <of> 50 & more".into(),
            x_label: "Clients",
            y_label: "Latency (ms)",
            log_x: true,
            log_y: false,
            series: vec![Series {
                name: "service".into(),
                points,
            }],
        }
    }

    #[test]
    fn equal_values_result_in_equal_files() {
        let svg = || {
            plot(vec![(1.0, 2.0), (8.0, 20.0), (64.0, 150.0)])
                .svg()
                .unwrap()
        };
        assert_eq!(svg(), svg());
        assert!(svg().contains("&lt;of&gt; 50 &amp; more"));
    }

    #[test]
    fn values_that_an_axis_cannot_contain_are_omitted() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (8.0, 3.0)];
        assert!(!plot(points).svg().unwrap().contains("NaN"));
        assert!(plot(Vec::new()).svg().is_err());
    }

    #[test]
    fn a_linear_axis_starts_at_zero_and_contains_all_values() {
        let axis = Axis::new(false, [130.0, 470.0].into_iter()).unwrap();
        assert_eq!(axis.range, 0.0..500.0);
        assert_eq!(axis.labels, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
    }

    #[test]
    fn a_logarithmic_axis_has_the_labels_of_few_values() {
        let axis = Axis::new(true, [1.0, 8.0, 64.0].into_iter()).unwrap();
        assert_eq!(axis.labels, [1.0, 8.0, 64.0]);
    }

    #[test]
    fn numbers_have_separators_and_few_digits() {
        let texts = [0.0, 0.01234, 1.5, 42.0, 99.96, 1234.6, -1_000_000.0].map(number);
        assert_eq!(
            texts,
            ["0", "0.012", "1.5", "42", "100", "1,235", "-1,000,000"]
        );
    }
}
