package shedders;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage;

/**
 * A cluster read from brokers.csv and bundles.csv, whose bundles can be moved.
 *
 * <p>Load follows a bundle at once and in full: a broker's bandwidth is the sum of its bundles, and its cpu is the cluster's
 * measured cpu, shared out by message rate.
 */
final class PlainCluster {
    /** Resources with a limit, by their place in a {@link Broker}'s arrays. */
    private static final int CPU = 0, IN = 1, OUT = 2;

    private static final double BYTES_PER_KBIT = 125;
    /** Heap and direct memory are not in the files; a value far from any threshold keeps them out of the decisions. */
    private static final ResourceUsage LITTLE_MEMORY = new ResourceUsage(1, 100);

    final List<Broker> brokers = new ArrayList<>();
    private final List<Bundle> bundles = new ArrayList<>();
    private final Map<String, Broker> brokerById = new HashMap<>();
    private final Map<String, Bundle> bundleByName = new HashMap<>();

    /** A broker with what its bundles use: cpu in percent, bandwidth in kbit/s, messages per second. */
    static final class Broker {
        final String id;
        private final double[] limits;
        private final double[] usage = new double[3];
        double msgRateIn;
        double msgRateOut;

        private Broker(String id, double[] limits) {
            this.id = id;
            this.limits = limits;
        }

        double bytesIn() {
            return usage[IN] * BYTES_PER_KBIT;
        }

        double bytesOut() {
            return usage[OUT] * BYTES_PER_KBIT;
        }

        /** The load report of the host, as Pulsar's own monitor would fill it. */
        SystemResourceUsage report() {
            SystemResourceUsage report = new SystemResourceUsage();
            report.setCpu(new ResourceUsage(usage[CPU], limits[CPU]));
            report.setBandwidthIn(new ResourceUsage(usage[IN], limits[IN]));
            report.setBandwidthOut(new ResourceUsage(usage[OUT], limits[OUT]));
            report.setMemory(LITTLE_MEMORY);
            report.setDirectMemory(LITTLE_MEMORY);
            return report;
        }

        private void add(Bundle bundle, int sign) {
            usage[CPU] += sign * bundle.cpu;
            usage[IN] += sign * bundle.stats.msgThroughputIn / BYTES_PER_KBIT;
            usage[OUT] += sign * bundle.stats.msgThroughputOut / BYTES_PER_KBIT;
            msgRateIn += sign * bundle.stats.msgRateIn;
            msgRateOut += sign * bundle.stats.msgRateOut;
        }
    }

    /** A bundle, the broker that owned it first, and the one that owns it now. */
    static final class Bundle {
        final String name;
        final NamespaceBundleStats stats;
        private final Broker firstOwner;
        private Broker owner;
        private double cpu;
        private int unloads;

        private Bundle(String name, NamespaceBundleStats stats, Broker owner) {
            this.name = name;
            this.stats = stats;
            this.firstOwner = owner;
            this.owner = owner;
        }

        double bytes() {
            return stats.msgThroughputIn + stats.msgThroughputOut;
        }
    }

    /** Where a bundle went, from the start to the end of a run; the judge reads such steps. */
    record Step(String kind, String bundle, String source, String destination) {}

    static PlainCluster read(Path folder) throws IOException {
        PlainCluster cluster = new PlainCluster();
        double cpu = 0;
        for (Map<String, String> row : readCsv(folder.resolve("brokers.csv"))) {
            double[] limits = {
                number(row, "cpu_limit"), number(row, "bandwidth_in_limit"), number(row, "bandwidth_out_limit")
            };
            Broker broker = new Broker(row.get("broker_id"), limits);
            cluster.brokers.add(broker);
            cluster.brokerById.put(broker.id, broker);
            cpu += number(row, "cpu_usage");
        }
        double rate = 0;
        for (Map<String, String> row : readCsv(folder.resolve("bundles.csv"))) {
            NamespaceBundleStats stats = new NamespaceBundleStats();
            stats.msgRateIn = number(row, "msg_rate_in");
            stats.msgRateOut = number(row, "msg_rate_out");
            stats.msgThroughputIn = number(row, "throughput_in");
            stats.msgThroughputOut = number(row, "throughput_out");
            stats.topics = (long) number(row, "topics");
            stats.producerCount = (int) number(row, "producers");
            stats.consumerCount = (int) number(row, "consumers");
            Bundle bundle = new Bundle(row.get("bundle"), stats, cluster.broker(row.get("owner")));
            cluster.bundles.add(bundle);
            cluster.bundleByName.put(bundle.name, bundle);
            rate += stats.msgRateIn + stats.msgRateOut;
        }
        double cpuPerMessage = cpu / rate;
        for (Bundle bundle : cluster.bundles) {
            bundle.cpu = (bundle.stats.msgRateIn + bundle.stats.msgRateOut) * cpuPerMessage;
            bundle.owner.add(bundle, +1);
        }
        return cluster;
    }

    Broker broker(String id) {
        Broker broker = brokerById.get(id);
        if (broker == null) {
            throw new IllegalArgumentException("there is no broker '" + id + "' in brokers.csv");
        }
        return broker;
    }

    Iterable<Bundle> bundles() {
        return bundles;
    }

    boolean owns(String brokerId, String bundleName) {
        return bundleByName.get(bundleName).owner.id.equals(brokerId);
    }

    /** The bundles of each broker, busiest first. */
    Map<Broker, List<Bundle>> bundlesByBroker() {
        Map<Broker, List<Bundle>> owned = new LinkedHashMap<>();
        brokers.forEach(broker -> owned.put(broker, new ArrayList<>()));
        bundles.forEach(bundle -> owned.get(bundle.owner).add(bundle));
        owned.values().forEach(some -> some.sort(Comparator.comparingDouble(Bundle::bytes).reversed()));
        return owned;
    }

    /** Moves a bundle; choosing the broker that owns it already unloads nothing. */
    void move(String bundleName, String brokerId) {
        Bundle bundle = bundleByName.get(bundleName);
        Broker destination = broker(brokerId);
        if (bundle.owner == destination) {
            return;
        }
        bundle.owner.add(bundle, -1);
        destination.add(bundle, +1);
        bundle.owner = destination;
        bundle.unloads++;
    }

    int unloads() {
        return bundles.stream().mapToInt(bundle -> bundle.unloads).sum();
    }

    /** Unloads of bundles that had been unloaded before. */
    int repeatedUnloads() {
        return bundles.stream().mapToInt(bundle -> Math.max(bundle.unloads - 1, 0)).sum();
    }

    /** One step for each bundle that did not end where it began. */
    List<Step> steps() {
        return bundles.stream()
                .filter(bundle -> bundle.owner != bundle.firstOwner)
                .map(bundle -> new Step("transfer", bundle.name, bundle.firstOwner.id, bundle.owner.id))
                .toList();
    }

    private static List<Map<String, String>> readCsv(Path file) throws IOException {
        List<String> lines = Files.readAllLines(file);
        String[] header = lines.get(0).split(",", -1);
        List<Map<String, String>> rows = new ArrayList<>(lines.size());
        for (String line : lines.subList(1, lines.size())) {
            String[] cells = line.split(",", -1);
            if (cells.length != header.length || line.indexOf('"') >= 0) {
                throw new IOException(file + ": expected " + header.length + " unquoted cells in: " + line);
            }
            Map<String, String> row = new HashMap<>();
            for (int column = 0; column < header.length; column++) {
                row.put(header[column], cells[column]);
            }
            rows.add(row);
        }
        return rows;
    }

    private static double number(Map<String, String> row, String column) {
        String text = row.get(column);
        if (text == null) {
            throw new IllegalArgumentException("there is no column '" + column + "'");
        }
        return Double.parseDouble(text);
    }
}
