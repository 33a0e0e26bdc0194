package shedders;

import com.google.common.collect.Multimap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageMessageData;

/** The modular load manager's cycle: a shedder picks bundles to unload, and a placement strategy their new owners. */
final class ModularShedding implements Shedding {
    private final LoadSheddingStrategy shedder;
    private final ModularLoadManagerStrategy placement;
    private final ServiceConfiguration configuration;

    ModularShedding(LoadSheddingStrategy shedder, ModularLoadManagerStrategy placement, ServiceConfiguration configuration) {
        this.shedder = shedder;
        this.placement = placement;
        this.configuration = configuration;
    }

    @Override
    public long runCycle(PlainCluster cluster) {
        LoadData reports = collectReports(cluster);
        long startedAt = System.nanoTime();
        Multimap<String, String> unloads = shedder.findBundlesForUnloading(reports, configuration);
        long decidedIn = System.nanoTime() - startedAt;
        unloads.forEach((broker, bundle) -> {
            if (cluster.owns(broker, bundle)) {
                place(cluster, reports, bundle);
            }
        });
        return decidedIn;
    }

    private void place(PlainCluster cluster, LoadData reports, String bundle) {
        Set<String> candidates = cluster.brokers.stream().map(broker -> broker.id).collect(Collectors.toCollection(HashSet::new));
        BundleData data = reports.getBundleData().get(bundle);
        placement.selectBroker(candidates, data, reports, configuration).ifPresent(chosen -> {
            // Later placements of this cycle must see the bundle at its new owner, as they do in the load manager.
            reports.getBrokerData().get(chosen).getPreallocatedBundleData().put(bundle, data);
            cluster.move(bundle, chosen);
        });
    }

    private static LoadData collectReports(PlainCluster cluster) {
        LoadData reports = new LoadData();
        cluster.bundlesByBroker().forEach((broker, owned) -> reports.getBrokerData().put(broker.id, report(broker, owned)));
        cluster.bundles().forEach(bundle -> reports.getBundleData().put(bundle.name, report(bundle)));
        return reports;
    }

    /** What a broker reports, with averages that have caught up with the present. */
    private static BrokerData report(PlainCluster.Broker broker, List<PlainCluster.Bundle> owned) {
        Map<String, NamespaceBundleStats> stats = new HashMap<>();
        owned.forEach(bundle -> stats.put(bundle.name, bundle.stats));
        LocalBrokerData local = new LocalBrokerData();
        local.setBundles(new HashSet<>());
        local.update(broker.report(), stats);
        local.setBundles(stats.keySet());
        TimeAverageBrokerData averages = new TimeAverageBrokerData();
        averages.setShortTermMsgThroughputIn(broker.bytesIn());
        averages.setShortTermMsgThroughputOut(broker.bytesOut());
        averages.setShortTermMsgRateIn(broker.msgRateIn);
        averages.setShortTermMsgRateOut(broker.msgRateOut);
        averages.setLongTermMsgThroughputIn(broker.bytesIn());
        averages.setLongTermMsgThroughputOut(broker.bytesOut());
        averages.setLongTermMsgRateIn(broker.msgRateIn);
        averages.setLongTermMsgRateOut(broker.msgRateOut);
        BrokerData data = new BrokerData(local);
        data.setTimeAverageData(averages);
        return data;
    }

    private static BundleData report(PlainCluster.Bundle bundle) {
        TimeAverageMessageData average = new TimeAverageMessageData(1);
        average.setMsgThroughputIn(bundle.stats.msgThroughputIn);
        average.setMsgThroughputOut(bundle.stats.msgThroughputOut);
        average.setMsgRateIn(bundle.stats.msgRateIn);
        average.setMsgRateOut(bundle.stats.msgRateOut);
        BundleData data = new BundleData(1, 1, bundle.stats);
        data.setShortTermData(average);
        data.setLongTermData(average);
        data.setTopics((int) bundle.stats.topics);
        return data;
    }
}
